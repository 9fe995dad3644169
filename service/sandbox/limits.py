"""Limits: what a child may use, and `confine`, which imposes it. Every wall of the jail is put up in this file."""

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from pydantic import PositiveInt

from service.domain.frozen import Frozen
from service.domain.sizes import MIB

# All that a zygote and its children see of the environment: no secrets, and one thread before a fork.
BARE_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    # How long torch's threads spin before they sleep. libgomp's default costs ten times a busy machine's time; none at
    # all costs an idle one half as much again (ResNet-18 on two cores: 200 against 45 ms, and 22 against 35 ms).
    "GOMP_SPINCOUNT": "2000",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # CUDA may be asked about, but not initialised, before a fork
}

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


class Limits(Frozen):
    """What the kernel lets a child use; None is no limit. Wall clock, log and results are its parent's to watch."""

    # torch itself maps well under 1 GiB of this. It counts addresses, not memory in use.
    address_space_mib: PositiveInt | None
    cpu_s: PositiveInt | None
    file_size_mib: PositiveInt | None = 1024
    open_files: PositiveInt = 128


def confine(limits: Limits, *, keep: Iterable[int], parent: int) -> None:
    """Shut this process, just forked by `parent`, into its limits; of its descriptors only 0 to 2 and `keep` stay."""
    _close_all_but({0, 1, 2, *keep})
    os.setsid()
    os.umask(0o077)
    os.environ.clear()
    os.environ.update(BARE_ENVIRONMENT)
    _be_the_first_to_go()
    _impose(limits)
    # Over a limit, or towards a parent that is gone, a write is to raise and not to kill.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    prctl(PR_SET_DUMPABLE, 0)
    _die_with(parent)


def prctl(option: int, value: int) -> None:
    if _libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _close_all_but(keep: set[int]) -> None:
    for low, high in pairwise([-1, *sorted(keep), os.sysconf("SC_OPEN_MAX")]):
        if low + 1 < high:  # closerange(0, 0) closes everything
            os.closerange(low + 1, high)


def _be_the_first_to_go() -> None:
    """When the machine runs out of memory, the kernel is to take this process and not one of its parents."""
    with contextlib.suppress(OSError):  # /proc may be missing or read-only
        Path("/proc/self/oom_score_adj").write_text("900")


def _impose(limits: Limits) -> None:
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    if limits.address_space_mib is not None:
        _limit(resource.RLIMIT_AS, limits.address_space_mib * MIB)
    if limits.file_size_mib is not None:
        _limit(resource.RLIMIT_FSIZE, limits.file_size_mib * MIB)
    if limits.cpu_s is not None:
        # SIGXCPU first, which tells the parent why; SIGKILL a second later for a child that ignores it.
        _limit(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1)


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Set a limit, or leave it where the system has it lower already."""
    _, most = resource.getrlimit(kind)
    hard = soft if hard is None else hard
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


def _die_with(parent: int) -> None:
    # After everything that changes credentials, which would clear it.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # died before the line above
        os._exit(1)
