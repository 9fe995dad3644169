"""The jail: every wall around a child, put up by the child itself before it reads anything that was submitted.

The order matters: each step still needs what a later one takes away.
"""

import contextlib
import os
import signal
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from service.sandbox import credentials, landlock, seccomp
from service.sandbox.kernel import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, prctl
from service.sandbox.limits import Limits, Profile, impose
from tracehouse.frozen import Frozen

# What a zygote and its children see in place of the environment: no secrets, and one thread before a fork.
BARE_ENVIRONMENT = {
    "PATH": "/nonexistent",  # no program can be started; ctypes.util.find_library, for one, would try a compiler
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    # How long torch's threads spin before they sleep. libgomp's default costs ten times a busy machine's time; none at
    # all costs an idle one half as much again (ResNet-18 on two cores: 200 against 45 ms, and 22 against 35 ms).
    "GOMP_SPINCOUNT": "2000",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "HF_HUB_OFFLINE": "1",  # or its downloads are tried for a minute, without a network
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # CUDA may be asked about, but not initialised, before a fork
}
# What an operator says of the GPUs, which CUDA reads in whichever process uses it.
_KEPT = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
# Everything that libraries expect to find; nothing that is written there is kept.
_WRITABLE = ("/dev/null",)


class Walls(Frozen):
    """Which of them stand. `readable` are the directories and files that submitted Python may read.

    `first_uid`: each child is a user of its own, counted from there.
    """

    readable: list[str] = []
    landlock: bool = False
    seccomp: bool = False
    paths: bool = True
    first_uid: int | None = None


def enter(walls: Walls, limits: Limits, profile: Profile, *, keep: Iterable[int], slot: int, parent: int) -> None:
    """Shut this process, just forked by `parent`, in; of its descriptors only 0 to 2 and `keep` stay.

    `slot` is a number that no other child has while this one lives.
    """
    _close_all_but({0, 1, 2, *keep})
    os.setsid()
    os.umask(0o077)
    environment = bare_environment()
    os.environ.clear()
    os.environ.update(environment)
    _be_the_first_to_go()
    _give_up_privileges(walls, slot)
    impose(limits)
    # Over a limit, or towards a parent that is gone, a write is to raise and not to kill.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    prctl(PR_SET_DUMPABLE, 0)
    _die_with(parent)
    if walls.landlock or walls.seccomp:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    if walls.landlock and profile == "trace":
        landlock.restrict(walls.readable, _WRITABLE)
    elif walls.landlock:
        landlock.restrict(())  # its files come as descriptors
    if walls.seccomp:
        seccomp.restrict(profile, os.getpid(), paths=walls.paths)


def bare_environment() -> dict[str, str]:
    """What is left of this process's."""
    return BARE_ENVIRONMENT | {name: os.environ[name] for name in _KEPT if name in os.environ}


def _close_all_but(keep: set[int]) -> None:
    for low, high in pairwise([-1, *sorted(keep), os.sysconf("SC_OPEN_MAX")]):
        if low + 1 < high:  # closerange(0, 0) closes everything
            os.closerange(low + 1, high)


def _be_the_first_to_go() -> None:
    """When the machine runs out of memory, the kernel is to take this process and not one of its parents."""
    prctl(PR_SET_DUMPABLE, 1)  # or the file is root's
    with contextlib.suppress(OSError):  # /proc may be missing or read-only
        Path("/proc/self/oom_score_adj").write_text("900")


def _give_up_privileges(walls: Walls, slot: int) -> None:
    if walls.first_uid is not None:
        credentials.become(walls.first_uid + slot)
    elif os.geteuid() == 0 and (walls.landlock or walls.seccomp):
        credentials.drop_capabilities()


def _die_with(parent: int) -> None:
    # After everything that changes credentials, which would clear it.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # died before the line above
        os._exit(1)
