"""`tracehouse doctor`: what works on this machine."""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.environment import settings_of
from service.domain.sizes import GIB
from service.settings import Settings

_PROGRAM = "workers.doctor"


def doctor(
    state: Annotated[Path | None, typer.Option(help="The state directory to look at.")] = None,
) -> None:
    """Say what works on this machine: the sandbox, torch, devices, disk."""
    from service.domain.errors import SandboxUnavailable
    from service.sandbox.choice import NoTierHolds
    from service.sandbox.zygote import ZygoteFailed

    settings = settings_of(state)
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", lambda: f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("processors", lambda: f"{os.cpu_count()}"),
        ("sandbox", lambda: _sandbox(settings)),
        ("torch", lambda: _torch(settings)),
        ("timm, transformers", _model_packages),
        ("disk", lambda: _disk(settings.state_dir)),
    ]
    failures = 0
    for name, check in checks:
        try:
            typer.echo(f"ok    {name:<20} {check()}")
        except (OSError, RuntimeError, NoTierHolds, ZygoteFailed, SandboxUnavailable) as error:
            failures += 1
            typer.echo(f"FAIL  {name:<20} {error}")
    raise typer.Exit(1 if failures else 0)


def _sandbox(settings: Settings) -> str:
    from service.sandbox.choice import choose, fault_of
    from service.sandbox.tiers import Tier

    chosen = choose(settings.sandbox)
    others = {tier: fault_of(tier) for tier in Tier if tier.confines and tier is not chosen}
    lines = [
        f"{chosen.value}: {chosen.description}",
        *(f"does not cover: {gap}" for gap in chosen.not_covered),
        *(f"{tier.value} would {'do' if fault is None else f'not do: {fault}'}" for tier, fault in others.items()),
    ]
    return f"\n{' ' * 26}".join(lines)


def _torch(settings: Settings) -> str:
    began = time.monotonic()
    found = _ask_child(settings)
    if not found.get("traces"):
        raise RuntimeError(f"torch {found.get('torch')} does not trace here")
    return (
        f"{found['torch']} traces in a confined child ({time.monotonic() - began:.1f} s from cold); "
        f"devices: {', '.join(found['devices'])}"
    )


def _ask_child(settings: Settings) -> dict[str, Any]:
    from service.sandbox.choice import choose
    from service.sandbox.limits import Limits
    from service.sandbox.zygote import Zygote

    limits = Limits(address_space_mib=settings.trace_memory_mib, cpu_s=settings.trace_cpu_s)
    zygote = Zygote([_PROGRAM], tier=choose(settings.sandbox))
    zygote.start()
    try:
        with zygote.fork(_PROGRAM, limits) as child:
            found, _ = child.channel.receive(until=time.monotonic() + 60)
            return found
    finally:
        zygote.close()


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
