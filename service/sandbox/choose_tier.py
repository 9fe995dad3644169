"""The choice of a tier: the strongest that holds on this machine against a self-test's attacks."""

import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from service.domain.errors import SandboxUnavailable
from service.sandbox import landlock
from service.sandbox.channel import ChannelClosed, MalformedFrame
from service.sandbox.limits import Limits, Profile
from service.sandbox.selftest import SelfTestReport, World
from service.sandbox.system_calls import MACHINES
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote, ZygoteFailed

_PROGRAM = "service.sandbox.selftest"
_ADDRESS_SPACE_MIB = 1024
_LIMITS = Limits(address_space_mib=_ADDRESS_SPACE_MIB, cpu_s=10, file_size_mib=1)
_TEST_S = 10.0

_log = logging.getLogger(__name__)


class NoTierHolds(Exception):
    """No tier holds here. The text says why for each tier, and what to do."""


def choose(wanted: str = "auto") -> Tier:
    """Return the strongest tier that holds, or the wanted one if it holds. Raises NoTierHolds."""
    if wanted == Tier.NONE:
        return Tier.NONE
    refused = {}
    for tier in Tier if wanted == "auto" else [Tier(wanted)]:
        if not tier.confines:
            continue
        fault = fault_of(tier)
        if fault is None:
            return tier
        refused[tier] = fault
        _log.info("tier refused", extra={"tier": tier.value, "why": fault})
    raise NoTierHolds(_why_none(wanted, refused))


def _why_none(wanted: str, refused: Mapping[Tier, str]) -> str:
    reasons = "; ".join(f"{tier.value}: {fault}" for tier, fault in refused.items())
    if wanted != "auto":
        return (
            f"SANDBOX={wanted} does not hold on this machine ({reasons}). SANDBOX=auto takes the strongest that does; "
            "tracehouse doctor lists them."
        )
    return (
        f"Submitted code cannot be confined on this machine ({reasons}). Run the service in a container or on Linux "
        f"5.13 or newer. SANDBOX={Tier.NONE.value} starts it all the same, for you alone: whatever is submitted can "
        "then do what you can."
    )


def tiers_that_hold() -> list[Tier]:
    """Return every tier that holds here, the strongest first."""
    return [tier for tier in Tier if tier.confines and fault_of(tier) is None]


def fault_of(tier: Tier) -> str | None:
    """Return why the tier must not be used here; None if its self-test passes."""
    if sys.platform != "linux":
        return "it needs Linux"
    if platform.machine() not in MACHINES:
        return f"it is not made for {platform.machine()}"
    if tier.has_landlock and landlock.abi() == 0:
        return "this kernel has no Landlock, or a container forbids it"
    if tier is Tier.UIDS and os.geteuid() != 0:
        return "only root can give each process a user of its own"
    try:
        with Zygote([_PROGRAM], tier=tier) as zygote:
            return next(faults(zygote, tier), None)
    except (ZygoteFailed, SandboxUnavailable) as error:
        return _last_line(str(error))


def faults(zygote: Zygote, tier: Tier) -> Iterator[str]:
    """Yield where the jail of the zygote's children does not keep what the tier promises."""
    victim_program = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
    with (
        tempfile.TemporaryDirectory() as directory,
        subprocess.Popen(victim_program, stdin=subprocess.PIPE) as victim,  # it ends with this block
    ):
        secret = Path(directory, "secret")
        for profile in ("trace", "infer"):
            secret.write_text("nobody's business")
            secret.chmod(0o644)  # so that only the jail protects it
            Path(directory).chmod(0o755)
            world = World(
                secret=str(secret),
                victim=victim.pid,
                reads_packages=profile == "trace" and tier.reads_packages,
                address_space_mib=_ADDRESS_SPACE_MIB,
            )
            yield from _attack(zygote, profile, world)


def _attack(zygote: Zygote, profile: Profile, world: World) -> Iterator[str]:
    until = time.monotonic() + _TEST_S
    with zygote.fork(_PROGRAM, _LIMITS, profile=profile) as child:
        child.channel.send(world.model_dump(), until=until)
        try:
            header, _ = child.channel.receive(until)
            report = SelfTestReport.model_validate(header)
        except (ChannelClosed, MalformedFrame, TimeoutError, ValidationError):
            child.close()
            yield f"the self-test did not come to its end: {_last_line(child.log.text())}"
            return
        if report.got_through:
            yield f"model code {', '.join(report.got_through)} ({profile})"
        if report.missing:
            yield f"model code is not able {', '.join(report.missing)} ({profile})"
        child.kill()
        try:
            child.wait(until)
        except TimeoutError:
            yield "a child cannot be killed"


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:300] or "nothing was printed"
