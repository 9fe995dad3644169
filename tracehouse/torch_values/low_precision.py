"""Low precision: whether this machine multiplies matrices of BF16 and FP16, or ends the process that does.

oneDNN multiplies them with the tile instructions of the processor (Intel AMX) where it has them. A virtual machine may
say that it has them, and end the process that uses them with SIGILL: seen under Firecracker on a Xeon.
"""

import faulthandler
import os
import resource
import signal
import time
import warnings
from contextlib import suppress
from functools import cache

import torch

LOW = (torch.bfloat16, torch.float16)
# oneDNN reads this once, before its first operator. The value leaves the tile instructions out, and no others.
_ISA, _WITHOUT_TILES = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"
_PROBE_S = 10.0  # the probe takes milliseconds; a child that hangs says nothing good either
_ROWS, _FEATURES = 160, 64  # oneDNN takes tiles for such a product, and none for a few rows


@cache
def crashes(dtype: torch.dtype) -> bool:
    """Whether a product of matrices of this dtype ends the process. A forked child tries it, once for each dtype."""
    if dtype not in LOW or not _has_tiles():
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child calls nothing that needs other threads
            child = os.fork()
    except OSError:  # a jail without processes: nobody knows
        return True
    if child == 0:
        _multiply(dtype)
    try:
        return _wait(child) != 0
    except ChildProcessError:  # this process has children waited for by others
        return True


def leave_broken_tiles_out() -> None:
    """Let oneDNN do without tile instructions if they crash. Call it before this process calls its first operator."""
    broken = [dtype for dtype in LOW if crashes(dtype)]
    if broken:
        os.environ.setdefault(_ISA, _WITHOUT_TILES)
        crashes.cache_clear()
    for dtype in LOW:
        crashes(dtype)  # children know it then, which may not be able to fork


def _has_tiles() -> bool:
    # torch has no public name for it.
    return hasattr(os, "fork") and bool(getattr(torch.cpu, "_is_amx_tile_supported", bool)())


def _multiply(dtype: torch.dtype) -> None:
    """Multiply matrices, and end this process: with 0 if it still can."""
    status = 1
    with suppress(BaseException):
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGILL, signal.SIG_DFL)
        torch.set_num_threads(1)  # a forked process has none of the other threads
        left, right = (torch.ones(_ROWS, _FEATURES, dtype=dtype) for _ in range(2))
        torch.nn.functional.linear(left, right)
        status = 0
    os._exit(status)


def _wait(child: int) -> int:
    """Return the status that the child ends with; it is killed if it takes too long."""
    until = time.monotonic() + _PROBE_S
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]
