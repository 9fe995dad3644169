"""Tiers: the jails that a zygote can put its children in. `choice` finds out which of them hold on a machine."""

import importlib.util
import sys
import sysconfig
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from service.sandbox.jail import Walls

# Of uids that no distribution gives to users or services by itself; Debian keeps 60000 and above for packages.
_FIRST_UID = 59_000
_SYSTEM = (
    # Shared libraries, which torch and others open when they are first used.
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache"),
    *("/usr/share/zoneinfo", "/etc/localtime"),
    *("/dev/urandom", "/dev/random", "/dev/zero"),
)
_PACKAGES = ("service", "workers")


class Tier(StrEnum):
    """The strongest first."""

    BUBBLEWRAP = "bubblewrap"
    UIDS = "uids"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"
    NONE = "i-accept-no-isolation"

    @property
    def walls(self) -> Walls:
        return Walls(
            readable=readable() if self.confines else [],
            landlock=self in (Tier.BUBBLEWRAP, Tier.UIDS, Tier.LANDLOCK),
            seccomp=self.confines,
            paths=self is not Tier.SECCOMP,
            first_uid=_FIRST_UID if self is Tier.UIDS else None,
        )

    @property
    def confines(self) -> bool:
        return self is not Tier.NONE

    @property
    def description(self) -> str:
        return _DESCRIPTIONS[self].stands

    @property
    def not_covered(self) -> list[str]:
        """What submitted code can do all the same."""
        return _DESCRIPTIONS[self].not_covered


class _Description(NamedTuple):
    stands: str
    not_covered: list[str]


_ANYWHERE = [
    "mistakes in the kernel itself, as far as the system calls that are left reach them",
    "guesses from timing, for processors and their caches are shared",
]
_PATHS_SHOW = (
    "whether a path exists, its size, owner and times, where a symlink points; never its content or a directory's list"
)
_DESCRIPTIONS = {
    Tier.BUBBLEWRAP: _Description(
        "namespaces of its own (users, processes, network, mounts, IPC), Landlock, seccomp, resource limits", _ANYWHERE
    ),
    Tier.UIDS: _Description(
        "a user of its own for each process, Landlock, seccomp, resource limits", [_PATHS_SHOW, *_ANYWHERE]
    ),
    Tier.LANDLOCK: _Description("Landlock, seccomp, resource limits", [_PATHS_SHOW, *_ANYWHERE]),
    Tier.SECCOMP: _Description(
        "seccomp without any call that names a path, resource limits",
        ["model code can import only what PRELOAD or the service itself has imported", *_ANYWHERE],
    ),
    Tier.NONE: _Description(
        "resource limits alone; submitted code is NOT confined",
        ["anything: submitted code can do what the service's user can, so trust whoever may send it"],
    ),
}


def readable() -> list[str]:
    """What Python code needs to run here: the standard library, installed packages, shared libraries; no project."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    paths |= {str(Path(sys.base_prefix, "lib")), *_SYSTEM, *map(_package, _PACKAGES)}
    return sorted(path for path in paths if Path(path).exists())


def _package(name: str) -> str:
    """Its directory alone: beside it, in a checkout, lies whatever a developer has there."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent)
