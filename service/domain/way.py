"""A way: how an artifact is made of a model. Mode auto tries several, and keeps the one that leaves least in doubt."""

from typing import Annotated, Literal

from pydantic import Field

from service.domain.frozen import Frozen
from service.domain.trace_check import Verdict

PARTS_MAX = 100


class Part(Frozen):
    """A submodule under its dotted name, or a function of the source as `module.name`."""

    name: str = Field(max_length=500)
    is_function: bool = False


Parts = Annotated[list[Part], Field(max_length=PARTS_MAX)]


class Way(Frozen):
    """Traced, where `scripted` are parts that are scripted first; or scripted whole."""

    mode: Literal["trace", "script"] = "trace"
    scripted: Parts = []

    def __str__(self) -> str:
        names = ", ".join(part.name for part in self.scripted)
        return f"{self.mode}, with {names} scripted" if names else self.mode


class Tried(Frozen):
    """A way that was tried, and what came of it."""

    way: str = Field(description="`trace`, `trace, with gate scripted`, or `script`.")
    verdict: Verdict | None = Field(description="Null where it gave no artifact.")
    detail: str | None = Field(None, description="Why it gave none, or was not kept.")
