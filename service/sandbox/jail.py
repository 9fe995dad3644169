"""The jail: the walls around a child, which the child itself puts up before it reads anything submitted.

The order matters: each step needs what a later one takes away.
"""

import contextlib
import os
import signal
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Self

from service.sandbox import credentials, landlock, seccomp
from service.sandbox.kernel import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, prctl
from service.sandbox.limits import Limits, Profile, impose
from service.sandbox.priority import give_way
from tracehouse.frozen import Frozen

# The environment of a zygote and its children: no secrets, and one thread before a fork.
BARE_ENVIRONMENT = {
    "PATH": "/nonexistent",  # no program can be started; ctypes.util.find_library, for example, would try a compiler
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    # How long torch's threads spin before they sleep. libgomp's default costs ten times a busy machine's time; none at
    # all costs an idle one half as much again (ResNet-18 on two cores: 200 against 45 ms, and 22 against 35 ms).
    "GOMP_SPINCOUNT": "2000",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "HF_HUB_OFFLINE": "1",  # otherwise it tries to download for a minute, without a network
    "ORT_DISABLE_TELEMETRY": "1",  # otherwise ONNX Runtime has a thread and a database for it
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # before a fork, CUDA may be queried but not initialised
}
# An operator's settings for GPUs, which CUDA reads in the process that uses it.
_KEPT = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
# Files that libraries expect to write; what is written there is not stored.
_WRITABLE = ("/dev/null",)


class Walls(Frozen):
    """The walls that are put up. `readable` are the directories and files that submitted Python may read.

    `first_uid`: each child runs as a user of its own, counted from this number.
    """

    readable: list[str] = []
    landlock: bool = False
    seccomp: bool = False
    paths: bool = True
    first_uid: int | None = None

    def with_readable(self, paths: Iterable[str]) -> Self:
        """Return walls that let these paths be read too."""
        return self.model_copy(update={"readable": [*self.readable, *paths]})

    def lets_read(self, path: Path) -> bool:
        """Whether submitted Python may read this file: it lies, where symlinks lead, beneath a readable path."""
        place = path.resolve()
        return any(place.is_relative_to(Path(one).resolve()) for one in self.readable)


def enter(
    walls: Walls, limits: Limits, profile: Profile, *, answers: bool, keep: Iterable[int], slot: int, parent: int
) -> None:
    """Put this process, just forked by `parent`, into the jail; descriptors other than 0 to 2 and `keep` are closed.

    `slot` is a number that no other living child has. It gives way unless clients wait for what it `answers`.
    """
    _close_all_but({0, 1, 2, *keep})
    if answers:
        os.setsid()
    else:
        os.setpgid(0, 0)  # it stays in the zygote's session, which gives way
        give_way()
    os.umask(0o077)
    environment = bare_environment()
    os.environ.clear()
    os.environ.update(environment)
    _raise_oom_score()
    _drop_privileges(walls, slot)
    impose(limits)
    # A write over a limit, or to a parent that is gone, must raise and not kill.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    prctl(PR_SET_DUMPABLE, 0)
    _die_with(parent)
    if walls.landlock or walls.seccomp:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    if walls.landlock and profile == "trace":
        landlock.restrict(walls.readable, _WRITABLE)
    elif walls.landlock:
        landlock.restrict(())  # it gets its files as descriptors
    if walls.seccomp:
        seccomp.restrict(profile, os.getpid(), paths=walls.paths)


def bare_environment() -> dict[str, str]:
    """Return the environment of a child, with this process's settings for GPUs."""
    return BARE_ENVIRONMENT | {name: os.environ[name] for name in _KEPT if name in os.environ}


def _close_all_but(keep: set[int]) -> None:
    for low, high in pairwise([-1, *sorted(keep), os.sysconf("SC_OPEN_MAX")]):
        if low + 1 < high:  # closerange(0, 0) closes everything
            os.closerange(low + 1, high)


def _raise_oom_score() -> None:
    """Make the kernel kill this process before its parents when the machine runs out of memory."""
    prctl(PR_SET_DUMPABLE, 1)  # otherwise root owns the file
    with contextlib.suppress(OSError):  # /proc may be missing or read-only
        Path("/proc/self/oom_score_adj").write_text("900")


def _drop_privileges(walls: Walls, slot: int) -> None:
    if walls.first_uid is not None:
        credentials.become(walls.first_uid + slot)
    elif os.geteuid() == 0 and (walls.landlock or walls.seccomp):
        credentials.drop_capabilities()


def _die_with(parent: int) -> None:
    # This comes after all changes of credentials, which would clear it.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
