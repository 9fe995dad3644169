"""Bubblewrap: starts a program in namespaces of its own, where it sees nothing but what is bound there."""

import shutil
import sys
from collections.abc import Iterable, Sequence

_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime")
_NAMESPACES = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
)


def wrapped(program: Sequence[str], readable: Iterable[str]) -> list[str]:
    """The program's command line, to be run so. Raises FileNotFoundError where bubblewrap is not installed."""
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        raise FileNotFoundError("bubblewrap is not installed")
    # Parents before what is beneath them, or they would hide it.
    bound = sorted({*_SYSTEM, sys.prefix, sys.base_prefix, *readable})
    return [
        bubblewrap,
        *_NAMESPACES,
        "--as-pid-1",  # so that its end is the end of every process in there
        *(word for path in bound for word in ("--ro-bind-try", path, path)),
        "--proc", "/proc",
        "--dev", "/dev",
        "--chdir", "/",
        "--", *program,
    ]  # fmt: skip
