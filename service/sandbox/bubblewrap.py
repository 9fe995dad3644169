"""Bubblewrap: runs a program in namespaces of its own, in which it sees only the paths that are bound there."""

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


def wrap_command(program: Sequence[str], readable: Iterable[str]) -> list[str]:
    """Return the command line that runs the program in bubblewrap. Raises FileNotFoundError if there is none."""
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        raise FileNotFoundError("bubblewrap is not installed")
    # A directory is bound before what is beneath it, which it would hide otherwise.
    bound = sorted({*_SYSTEM, sys.prefix, sys.base_prefix, *readable})
    return [
        bubblewrap,
        *_NAMESPACES,
        "--as-pid-1",  # its end ends every process in the namespace
        *(word for path in bound for word in ("--ro-bind-try", path, path)),
        "--proc", "/proc",
        "--dev", "/dev",
        "--chdir", "/",
        "--", *program,
    ]  # fmt: skip
