"""`tracehouse doctor`: what works on this machine."""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.environment import settings_of
from service.domain.sizes import GIB
from service.settings import Settings

if TYPE_CHECKING:  # no other command is to wait for these
    from service.sandbox.choice import NoTierHolds
    from service.sandbox.tiers import Tier

_PROGRAM = "workers.doctor"


class _Doubt(Exception):
    """It works, and somebody should know what the text says."""


def doctor(
    state: Annotated[Path | None, typer.Option(help="The state directory to look at.")] = None,
) -> None:
    """Say what works on this machine: the sandbox, torch, devices, disk."""
    settings = settings_of(state)
    tier = _chosen(settings)
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", lambda: f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("processors", lambda: f"{os.cpu_count()}"),
        ("sandbox", lambda: _sandbox(tier)),
        ("timm, transformers", _model_packages),
        ("disk", lambda: _disk(settings.state_dir)),
    ]
    if not isinstance(tier, Exception):
        checks.insert(3, ("torch", lambda: _torch(settings, tier)))
    worked = [_told(name, check) for name, check in checks]
    raise typer.Exit(0 if all(worked) else 1)


def _told(name: str, check: Callable[[], str]) -> bool:
    """Print what the check finds; whether it works."""
    from service.domain.errors import SandboxUnavailable
    from service.sandbox.choice import NoTierHolds
    from service.sandbox.zygote import ZygoteFailed

    worked = True
    try:
        mark, text = "ok", check()
    except _Doubt as doubt:
        mark, text = "WARN", str(doubt)
    except (OSError, RuntimeError, NoTierHolds, ZygoteFailed, SandboxUnavailable) as error:
        worked, mark, text = False, "FAIL", str(error)
    for line in text.splitlines():
        typer.echo(f"{mark:<5} {name:<20} {line}".rstrip())
        mark = name = ""
    return worked


def _chosen(settings: Settings) -> "Tier | NoTierHolds":
    from service.sandbox.choice import NoTierHolds, choose

    try:
        return choose(settings.sandbox)
    except NoTierHolds as error:
        return error


def _sandbox(chosen: "Tier | NoTierHolds") -> str:
    from service.sandbox.choice import fault_of
    from service.sandbox.tiers import Tier

    if isinstance(chosen, Exception):
        raise chosen
    others = {tier: fault_of(tier) for tier in Tier if tier.confines and tier is not chosen}
    text = "\n".join(
        [
            f"{chosen.value}: {chosen.description}",
            *(f"does not cover: {gap}" for gap in chosen.not_covered),
            *(f"{tier.value} would {'do' if fault is None else f'not do: {fault}'}" for tier, fault in others.items()),
        ]
    )
    if not chosen.confines:
        raise _Doubt(text)
    return text


def _torch(settings: Settings, tier: "Tier") -> str:
    began = time.monotonic()
    found = _ask_child(settings, tier)
    if not found.get("traces"):
        raise RuntimeError(f"torch {found.get('torch')} does not trace here")
    return (
        f"{found['torch']} traces in a child ({time.monotonic() - began:.1f} s from cold); "
        f"devices: {', '.join(found['devices'])}"
    )


def _ask_child(settings: Settings, tier: "Tier") -> dict[str, Any]:
    from service.sandbox.limits import Limits
    from service.sandbox.zygote import Zygote

    limits = Limits(address_space_mib=settings.trace_memory_mib, cpu_s=settings.trace_cpu_s)
    with Zygote([_PROGRAM], tier=tier) as zygote, zygote.fork(_PROGRAM, limits) as child:
        found, _ = child.channel.receive(until=time.monotonic() + 60)
        return found


def _model_packages() -> str:
    found = []
    for name in ("timm", "transformers"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed (only sources that import it need it)")
    return ", ".join(found)


def _disk(state: Path) -> str:
    there = next(path for path in (state.absolute(), *state.absolute().parents) if path.exists())
    with tempfile.TemporaryFile(dir=there) as probe:
        probe.write(b"\0")
        probe.flush()
        os.fsync(probe.fileno())
    free = shutil.disk_usage(there).free
    if free < GIB:
        raise RuntimeError(f"only {free / GIB:.1f} GiB free for {state}")
    return f"{free / GIB:.0f} GiB free for {state.absolute()}"
