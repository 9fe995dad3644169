"""A machine finding: what was found of an artifact on one kind of machine, with one version of torch."""

from pydantic import Field

from tracehouse.frozen import Frozen


class MachineFinding(Frozen):
    """Elsewhere, and with another torch, it says nothing."""

    digest: str
    machine: str = Field(description="The processor and how many threads compute.")
    torch: str
