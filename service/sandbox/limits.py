"""Limits: how much a child may use."""

import resource
from typing import Literal, Self

from pydantic import PositiveInt

from tracehouse.byte_units import MIB
from tracehouse.frozen import Frozen

# What a child does: run submitted Python, or only the operators of an archive that it was given.
Profile = Literal["trace", "infer"]


class Limits(Frozen):
    """How much a child may use; None is no limit. Its parent limits wall clock, log and results."""

    # torch itself maps well under 1 GiB of this. It counts addresses, not memory in use.
    address_space_mib: PositiveInt | None
    cpu_s: PositiveInt | None
    file_size_mib: PositiveInt | None = 1024
    open_files: PositiveInt = 128
    # A thread costs the kernel memory that no limit counts. The zygote checks from time to time, and kills.
    threads: PositiveInt | None = 256

    def on(self, device: str) -> Self:
        """Return the limits for a child on this device: CUDA maps far more addresses than it uses memory."""
        return self.model_copy(update={"address_space_mib": None}) if device == "cuda" else self


def impose(limits: Limits) -> None:
    """Limit this process, with hard limits that it cannot raise again."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    if limits.address_space_mib is not None:
        _limit(resource.RLIMIT_AS, limits.address_space_mib * MIB)
    if limits.file_size_mib is not None:
        _limit(resource.RLIMIT_FSIZE, limits.file_size_mib * MIB)
    if limits.cpu_s is not None:
        # SIGXCPU comes first and tells the parent why; SIGKILL comes a second later if the child ignores it.
        _limit(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1)


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Set a limit, unless the system's is lower already."""
    _, most = resource.getrlimit(kind)
    hard = soft if hard is None else hard
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))
