"""An attack: what a child does, and the judge that says in its parent, once the child is gone, whether it worked.

    @attack(leaked)
    def reads_a_file_of_the_service(world):
        return Path(world.secret).read_text()

The function's name is the attack's, `_s_` standing for `'s `, and its module's name the kind. The function runs inside
a jailed child; the judge never does. A judge looks at effects: a file that changed, a secret that was told, a process
that died. Where a success would hurt the machine, the attack asks the kernel for something harmless of the same sort
and claims what it was given.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from service.sandbox.limits import Profile
from service.sandbox.tiers import Tier

# As the tests see both sides of it: names of targets, and what the child said.
Run = Callable[[Any], Any]
Judge = Callable[[Any, Any], bool]
Archive = Callable[[Any], bytes]

ATTACKS: dict[str, "Attack"] = {}


def nothing_forbids_it() -> str:
    return ""


@dataclass(frozen=True, eq=False)
class Attack:
    """`impossible_here` says what of this machine forbids it to all; `contained`, why it fails without a jail too.

    In `uncovered` tiers it works in the profile `trace`, and the tier's description says so.
    """

    name: str
    kind: str
    run: Run = field(repr=False)
    worked: Judge = field(repr=False)
    profiles: tuple[Profile, ...]
    impossible_here: Callable[[], str] = field(repr=False)
    contained: str
    archive: Archive | None = field(repr=False)
    sibling: bool
    limits: dict[str, int]
    wall_s: float
    uncovered: tuple[Tier, ...]

    def __str__(self) -> str:
        return self.name


def attack(
    worked: Judge,
    *,
    profiles: tuple[Profile, ...] = ("trace", "infer"),
    impossible_here: Callable[[], str] = nothing_forbids_it,
    contained: str = "",
    archive: Archive | None = None,
    sibling: bool = False,
    limits: dict[str, int] | None = None,
    wall_s: float = 60.0,
    uncovered: tuple[Tier, ...] = (),
) -> Callable[[Run], Run]:
    """Declare one. With `archive` the child is given what that writes; with `sibling` another child lives beside it."""

    def declare(run: Run) -> Run:
        name = run.__name__.replace("_s_", "'s ").replace("_", " ")
        assert name not in ATTACKS, name
        kind = run.__module__.rpartition(".")[2]
        ATTACKS[name] = Attack(
            name,
            kind,
            run,
            worked,
            profiles=profiles,
            impossible_here=impossible_here,
            contained=contained,
            archive=archive,
            sibling=sibling,
            limits=limits or {},
            wall_s=wall_s,
            uncovered=uncovered,
        )
        return run

    return declare
