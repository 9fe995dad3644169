"""The attacks: each in every tier that this machine offers, and each without a jail, where it must work."""

import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attacks import KINDS, archives, floods, resources
from attacks.attack import ATTACKS, Attack
from attacks.judges import Outcome
from attacks.world import Place, World

from service.sandbox.channel import BODY_MAX_BYTES, HEADER_MAX_BYTES, ChannelClosed, MalformedFrame
from service.sandbox.child import Child
from service.sandbox.limits import Limits, Profile
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from tests.conftest import offered_tiers, parent_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.torch.jit")]

HERE = Path(__file__).parent
PROGRAM = "programs.attacker"
FRAMES_MAX = 1000
# A child begins, and its end is told, at once where the machine is idle.
PATIENCE_S = 20.0
HARMLESS_KIB = 64 * 1024
UNBOUNDED_BYTES = 64 * 2**20
# Without a jail, far more than any attack takes; of processor time, more than the limit that it is to go over.
NO_LIMITS = Limits(address_space_mib=None, cpu_s=None, file_size_mib=None, open_files=4096, threads=None)
LIMITS = Limits(address_space_mib=resources.LIMIT_MIB, cpu_s=10, file_size_mib=1, open_files=64)

GetZygote = Callable[[Tier, bool], Zygote]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with Place() as place:
        sys.path.append(str(place.packages))
        yield place
        sys.path.remove(str(place.packages))


@pytest.fixture(scope="module")
def zygote_of(place: Place) -> Iterator[GetZygote]:
    """One for each tier, and another one with torch."""
    with contextlib.ExitStack() as opened:

        @cache
        def zygote_of(tier: Tier, with_torch: bool) -> Zygote:
            modules = ["programs.loads", PROGRAM] if with_torch else [PROGRAM]
            return opened.enter_context(Zygote(modules, tier=tier, path=[HERE], forks_max=10_000))

        yield zygote_of


@pytest.fixture
def world(place: Place) -> Iterator[World]:
    world = World(place)
    yield world
    world.remove()


def every_run() -> list[Any]:
    """Every attack in every tier; in its second profile only in the one whose walls the others have too."""
    return [
        pytest.param(tier, profile, attack, id=f"{tier}-{profile}-{attack}")
        for attack in ATTACKS.values()
        for profile in attack.profiles
        for tier in (offered_tiers() if profile == attack.profiles[0] else offered_tiers()[-1:])
        if not (profile == "trace" and tier in attack.uncovered)
    ]


def every_uncovered_run() -> list[Any]:
    return [
        pytest.param(tier, attack, id=f"{tier}-{attack}")
        for attack in ATTACKS.values()
        for tier in offered_tiers()
        if tier in attack.uncovered
    ]


@pytest.mark.parametrize(("tier", "profile", "attack"), every_run())
def test_the_jail_holds(zygote_of: GetZygote, world: World, tier: Tier, profile: Profile, attack: Attack):
    outcome = launch(zygote_of(tier, attack.archive is not None), attack, profile, world, bounded=True)

    assert outcome.begun, outcome
    assert not attack.worked(world, outcome), outcome
    assert not outcome.harm, outcome


@pytest.mark.parametrize(("tier", "attack"), every_uncovered_run())
def test_what_a_tier_does_not_cover_works_in_it(zygote_of: GetZygote, world: World, tier: Tier, attack: Attack):
    """Or the tier holds more than is said of it, and the test above leaves this out for nothing."""
    outcome = launch(zygote_of(tier, False), attack, "trace", world, bounded=True)

    assert attack.worked(world, outcome), outcome


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS.values() if not attack.contained], ids=str)
def test_without_the_jail_it_works(zygote_of: GetZygote, world: World, attack: Attack):
    """Or the test above could not fail. What the machine itself forbids to everybody shows nothing either way."""
    zygote = zygote_of(Tier.NONE, attack.archive is not None)
    outcome = launch(zygote, attack, attack.profiles[0], world, bounded=False)

    assert attack.worked(world, outcome) or attack.impossible_here(), outcome


def test_an_honest_archive_is_called_in_the_jail(zygote_of: GetZygote, world: World, offered_tier: Tier):
    """Or no archive could attack it."""
    with (
        world.given(archives.scripted(archives.HONEST)) as files,
        zygote_of(offered_tier, True).fork(PROGRAM, limits_of(archives.LIMIT_MIB), files, profile="infer") as child,
    ):
        child.channel.send({"attack": "an operator reads a file", "world": world.targets()})
        child.channel.receive(time.monotonic() + PATIENCE_S)
        answer, _ = child.channel.receive(time.monotonic() + PATIENCE_S)

    assert answer == {"returned": "the honest answer"}


def test_a_tier_holds_here():
    """Or nothing above was attacked."""
    assert offered_tiers()


def test_there_are_a_hundred_attacks_of_every_kind():
    by_kind = Counter(attack.kind for attack in ATTACKS.values())
    assert by_kind.keys() == {kind.__name__.rpartition(".")[2] for kind in KINDS}
    assert min(by_kind.values()) >= 8
    assert sum(not attack.contained for attack in ATTACKS.values()) >= 100


def launch(zygote: Zygote, attack: Attack, profile: Profile, world: World, *, bounded: bool) -> Outcome:
    """Make the attack; what came of it once the child is gone."""
    outcome = Outcome()
    archive = None if attack.archive is None else attack.archive(world)
    address_space_mib = archives.LIMIT_MIB if archive else resources.LIMIT_MIB
    limits = limits_of(address_space_mib, **attack.limits) if bounded else no_limits_of(attack)
    bounds = {
        "log_max_bytes": floods.LOG_MAX_BYTES if bounded else UNBOUNDED_BYTES,
        "header_max_bytes": floods.HEADER_MAX_BYTES if bounded else HEADER_MAX_BYTES,
        "body_max_bytes": floods.BODY_MAX_BYTES if bounded else BODY_MAX_BYTES,
    }
    descriptors, memory_kib = len(os.listdir("/proc/self/fd")), peak_from_now_kib()
    with contextlib.ExitStack() as opened:
        files = opened.enter_context(world.given(archive))
        sibling = opened.enter_context(zygote.fork(PROGRAM, limits, profile=profile)) if attack.sibling else None
        child = opened.enter_context(zygote.fork(PROGRAM, limits, files, profile=profile, **bounds))
        parent = parent_of(child.pid)
        targets = world.targets() | {"sibling": hold(sibling, world) if sibling else 0}
        child.channel.send({"attack": attack.name, "world": targets})
        listen(child, outcome, attack.wall_s)
        child.kill()
        try:
            child.wait(time.monotonic() + PATIENCE_S)
        except TimeoutError:
            outcome.harm.append("its end is not told")
            os.kill(parent, signal.SIGCONT)
    outcome.exit = child.wait()
    log = child.log.text().encode()
    outcome.said += log
    outcome.log_bytes = len(log)
    if outcome.exit.with_zygote:
        outcome.harm.append("the zygote died")
    if len(os.listdir("/proc/self/fd")) > descriptors:
        outcome.harm.append("its parent has more descriptors than before")
    if peak_kib() > memory_kib + HARMLESS_KIB:
        outcome.harm.append("its parent took memory for it")
    if Path(f"/proc/{child.pid}").exists():
        outcome.harm.append("it lives")
    return outcome


def peak_from_now_kib() -> int:
    """The most memory that this process has used, which from now on is what it uses now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_kib()


def peak_kib() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].removesuffix("kB"))


def limits_of(address_space_mib: int, **others: int) -> Limits:
    return LIMITS.model_copy(update={"address_space_mib": address_space_mib, **others})


def no_limits_of(attack: Attack) -> Limits:
    """Without a jail; what would use the processor for ever is ended once it has gone far over its limit."""
    return NO_LIMITS.model_copy(update={"cpu_s": 4 * attack.limits["cpu_s"]} if "cpu_s" in attack.limits else {})


def hold(sibling: Child, world: World) -> int:
    """The pid of a child that has a secret in its memory."""
    sibling.channel.send({"attack": None, "secret": world.sibling_token})
    sibling.channel.receive(time.monotonic() + PATIENCE_S)
    return sibling.pid


def listen(child: Child, outcome: Outcome, wall_s: float) -> None:
    """Hear what it says until it ends, says what cannot be understood, has said too much, or is out of time.

    Its time begins when it has begun, which takes a while on a busy machine.
    """
    until = time.monotonic() + PATIENCE_S
    with contextlib.suppress(ChannelClosed, MalformedFrame, TimeoutError):
        for _ in range(FRAMES_MAX):
            header, _ = child.channel.receive_header(until)
            text = repr(header).encode()
            outcome.header_bytes = max(outcome.header_bytes, len(text))
            body = child.channel.receive_body(until)
            outcome.body_bytes = max(outcome.body_bytes, len(body))
            outcome.said += text + body
            if not outcome.begun and "begun" in header:
                outcome.begun = True
                until = time.monotonic() + wall_s
            outcome.returned = header.get("returned", outcome.returned)
            outcome.raised = str(header.get("raised", outcome.raised))
