"""Tiers: the jails that a zygote can put its children in. `choose_tier` finds out which hold on a machine."""

import importlib.util
import sys
import sysconfig
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from service.sandbox.jail import Walls

# Debian numbers users from 1000 to 59999; 60000 and above are for packages, and few containers map more than 65536.
_FIRST_UID = 59_000
_SYSTEM = (
    # Shared libraries, which torch and others open at their first use.
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache"),
    *("/usr/share/zoneinfo", "/etc/localtime"),
    *("/dev/urandom", "/dev/random", "/dev/zero"),
)


class Tier(StrEnum):
    """The tiers, the strongest first."""

    BUBBLEWRAP = "bubblewrap"
    UIDS = "uids"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"
    NONE = "i-accept-no-isolation"

    def walls(self, modules: Sequence[str]) -> Walls:
        """Return the walls for children that run these modules; looks on the disk for what they may read."""
        return Walls(
            readable=readable(modules) if self.confines else [],
            landlock=self.has_landlock,
            seccomp=self.confines,
            paths=self.reads_packages,
            first_uid=_FIRST_UID if self is Tier.UIDS else None,
        )

    @property
    def confines(self) -> bool:
        return self is not Tier.NONE

    @property
    def has_landlock(self) -> bool:
        return self in (Tier.BUBBLEWRAP, Tier.UIDS, Tier.LANDLOCK)

    @property
    def reads_packages(self) -> bool:
        """Whether submitted code can import what is not loaded yet."""
        return self is not Tier.SECCOMP

    @property
    def description(self) -> str:
        return _DESCRIPTIONS[self].walls

    @property
    def not_covered(self) -> list[str]:
        """What submitted code can still do."""
        return _DESCRIPTIONS[self].not_covered


class _Description(NamedTuple):
    walls: str
    not_covered: list[str]


_ANYWHERE = [
    "mistakes in the kernel itself, as far as the system calls that are left reach them",
    "guesses from timing, for processors and their caches are shared",
]
_SIBLINGS_SHOW = "the numbers of processes that run for other requests can be asked for; nothing else of them"
_PATHS_SHOW = (
    "whether a path exists, its size, owner and times, where a symlink points; never its content or a directory's list"
)
_DESCRIPTIONS = {
    Tier.BUBBLEWRAP: _Description(
        "namespaces (users, processes, network, mounts, IPC) around all children together; Landlock, seccomp and "
        "resource limits around each",
        [_SIBLINGS_SHOW, *_ANYWHERE],
    ),
    Tier.UIDS: _Description(
        "a user of its own for each child, Landlock, seccomp, resource limits", [_PATHS_SHOW, *_ANYWHERE]
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


def readable(modules: Sequence[str]) -> list[str]:
    """Return what Python code needs to run: standard library, packages and shared libraries, but no project."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    paths |= {str(Path(sys.base_prefix, "lib")), *_SYSTEM}
    paths |= {
        directory for name in ("service", "tracehouse", *modules) for directory in _package(name.partition(".")[0])
    }
    return sorted(path for path in paths if Path(path).exists())


def _package(name: str) -> list[str]:
    """Return the package's own directories: in a checkout, a developer's files lie beside them."""
    spec = importlib.util.find_spec(name)
    return [] if spec is None else [*(spec.submodule_search_locations or [])]
