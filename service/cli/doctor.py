"""`tracehouse doctor`: what works on this machine."""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.environment import settings_of
from service.cli.json_output import Json, print_json
from service.settings import Settings
from tracehouse.byte_units import GIB

if TYPE_CHECKING:  # imported where they are used, so that no other command waits for them
    from service.sandbox.choose_tier import NoTierHolds
    from service.sandbox.limits import Limits
    from service.sandbox.tiers import Tier
    from service.sandbox.torch_probe import TorchCapabilities


class _Caution(Exception):
    """Something works, but with a restriction that the text names."""


class _TorchProbe:
    """What torch can do in a child; `capabilities` is None before it was asked, and if it did not answer."""

    capabilities: "TorchCapabilities | None" = None

    def ask(self, tier: "Tier", limits: "Limits") -> str:
        from service.sandbox import torch_probe

        began = time.monotonic()
        self.capabilities = torch_probe.ask(tier, limits)
        if not self.capabilities.traces:
            raise RuntimeError(f"torch {self.capabilities.torch} does not trace here")
        return (
            f"{self.capabilities.torch} traces in a child ({time.monotonic() - began:.1f} s from cold); "
            f"devices: {', '.join(self.capabilities.devices)}"
        )


def doctor(
    as_json: Json = False,
    state: Annotated[Path | None, typer.Option(help="The state directory to check.")] = None,
) -> None:
    """Say what works on this machine: the sandbox, torch, devices, disk."""
    settings = settings_of(state)
    tier = _choose_tier(settings)
    torch = _TorchProbe()
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", lambda: f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("processors", lambda: f"{os.cpu_count()}"),
        ("sandbox", lambda: _sandbox(tier)),
    ]
    if not isinstance(tier, Exception):
        limits = _child_limits(settings)
        checks += [
            ("torch", lambda: torch.ask(tier, limits)),
            ("gpu", lambda: _gpu(settings.gpu_slots, tier, limits)),
        ]
    checks += [
        ("timm, transformers", lambda: _model_packages(torch.capabilities)),  # what torch has answered above
        ("disk", lambda: _disk(settings.state_dir)),
    ]
    found = []
    for name, check in checks:
        mark, text = _run_check(check)
        found.append({"name": name, "mark": mark, "text": text})
        if not as_json:
            _print_check(mark, name, text)
    if as_json:
        print_json({"checks": found})
    raise typer.Exit(1 if any(one["mark"] == "FAIL" for one in found) else 0)


def _print_check(mark: str, name: str, text: str) -> None:
    for line in text.splitlines():
        typer.echo(f"{mark:<5} {name:<20} {line}".rstrip())
        mark = name = ""


def _run_check(check: Callable[[], str]) -> tuple[str, str]:
    """Return `ok`, `WARN` or `FAIL`, and what the check finds."""
    from service.domain.errors import SandboxUnavailable
    from service.sandbox.choose_tier import NoTierHolds
    from service.sandbox.torch_probe import NoGpu
    from service.sandbox.zygote import ZygoteFailed

    try:
        return "ok", check()
    except _Caution as caution:
        return "WARN", str(caution)
    except (OSError, RuntimeError, NoTierHolds, NoGpu, ZygoteFailed, SandboxUnavailable) as error:
        return "FAIL", str(error)


def _choose_tier(settings: Settings) -> "Tier | NoTierHolds":
    from service.sandbox.choose_tier import NoTierHolds, choose

    try:
        return choose(settings.sandbox)
    except NoTierHolds as error:
        return error


def _sandbox(chosen: "Tier | NoTierHolds") -> str:
    from service.sandbox.choose_tier import fault_of
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
        raise _Caution(text)
    return text


def _child_limits(settings: Settings) -> "Limits":
    from service.sandbox.limits import Limits

    return Limits(address_space_mib=settings.trace_memory_mib, cpu_s=settings.trace_cpu_s)


def _gpu(slots: int, tier: "Tier", limits: "Limits") -> str:
    from service.sandbox.tiers import Tier
    from service.sandbox.torch_probe import require_gpu

    if not slots:
        return f"trace requests that ask for cuda wait: GPU_SLOTS is 0, and more needs SANDBOX={Tier.NONE.value}"
    require_gpu(tier, limits)
    raise _Caution(f"trace requests that ask for cuda run, {slots} at the same time, and are NOT confined")


def _model_packages(torch: "TorchCapabilities | None") -> str:
    found = []
    for name in ("timm", "transformers"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed (only sources that import it need it)")
    text = ", ".join(found)
    if torch is not None and torch.torchvision_fault is not None:
        raise _Caution(
            f"{text}\ntorchvision {version('torchvision')} cannot be imported, and timm imports it: "
            f"{torch.torchvision_fault}\n"
            f"sources that import either fail, until a torchvision that was built for torch {torch.torch} is "
            "installed, or the source declares the missing operators first, as "
            "examples/models/torchvision_operators.py does"
        )
    return text


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
