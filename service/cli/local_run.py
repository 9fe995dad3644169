"""A run of a trace request on this machine, with no service: the jail, the processes in it, and what stops them."""

import importlib.util
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from service.cli.exit_codes import CANCELLED
from service.cli.progress_bar import ProgressBar
from service.cli.usage_errors import refuse
from service.sandbox.tiers import Tier
from service.settings import Settings
from tracehouse.artifact.blob import BlobRef
from tracehouse.errors import ServiceError

if TYPE_CHECKING:  # imported where they are used, so that no other command waits for them
    from service.domain.outcome import Outcome
    from service.environments.environments import Environments
    from workers.local_check import LocalCheck


@dataclass(frozen=True)
class LocalRun:
    """What a run came to. The files that the outcome names can be opened until the block of `run_locally` ends."""

    outcome: "Outcome"
    seconds: float
    check: "LocalCheck"

    def open(self, blob: BlobRef) -> BinaryIO:
        return self.check.open(blob)


@contextmanager
def run_locally(
    spec: dict[str, Any], files: Mapping[str, Path], settings: Settings, package: str | None = None
) -> Iterator[LocalRun]:
    """Run a trace request, which is given as JSON, and show its progress. At the end, nothing of it is on disk.

    `package` is the installed package that the source imports, if it is one.

    Ctrl-C and SIGTERM end it, as does a terminal that is closed, and the command with `CANCELLED`.
    """
    from service.environments.environments import Environments
    from service.limits import trace_limits
    from service.sandbox.zygote import Zygote, ZygoteFailed
    from workers.attempt import MODULES
    from workers.local_check import LocalCheck

    began = time.monotonic()
    environments = Environments(settings.environments)
    try:
        tier = _choose_tier(settings.sandbox, spec["devices"])
        if package is not None and spec["environment"] is None:
            _refuse_if_unreadable(package, tier)
        packages = environments.directory if environments.directory.is_dir() else None
        with (
            _interrupted_by_signals(),
            Zygote(MODULES, settings.preload, tier=tier, packages=packages) as zygote,
            LocalCheck(zygote, environments, trace_limits(settings)) as check,
        ):
            outcome = _attempt(check, spec, files, tier, environments)
            yield LocalRun(outcome, time.monotonic() - began, check)
    except ZygoteFailed as error:
        refuse(str(error))
    except KeyboardInterrupt:
        typer.echo("Cancelled.", err=True)
        raise typer.Exit(CANCELLED) from None


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Take SIGTERM and SIGHUP for Ctrl-C. What is ignored stays so: nohup ignores SIGHUP."""
    ends = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    before = {one: signal.signal(one, signal.default_int_handler) for one in ends}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _choose_tier(wanted: str, devices: list[str]) -> Tier:
    """Return the jail that the service would take. If there is none, the code runs all the same: it is the user's."""
    from service.sandbox.choose_tier import NoTierHolds, choose

    try:
        tier = choose(wanted)
    except NoTierHolds as error:
        if wanted != "auto":
            refuse(str(error))
        tier = Tier.NONE
    if not tier.confines:
        typer.echo("The code is NOT confined: it runs as you. tracehouse doctor says what would confine it.", err=True)
    elif "cuda" in devices:
        refuse(f"--device cuda needs SANDBOX={Tier.NONE.value}, for no sandbox lets CUDA in: the code then runs as you")
    return tier


def _refuse_if_unreadable(package: str, tier: Tier) -> None:
    """Refuse a package that is installed where the jail reads nothing, as one that is installed as editable is."""
    from workers.attempt import MODULES

    found = importlib.util.find_spec(package)
    places = [Path(place) for place in (found and found.submodule_search_locations) or ()]
    walls = tier.walls(MODULES)
    if tier.confines and places and not any(map(walls.lets_read, places)):
        refuse(
            f"{package} is in {places[0].parent}, of which the jail reads nothing: check it as a directory, with "
            f"tracehouse check {places[0].parent} {package}:NAME"
        )


def _attempt(
    check: "LocalCheck", spec: dict[str, Any], files: Mapping[str, Path], tier: Tier, environments: "Environments"
) -> "Outcome":
    """Return the outcome. On KeyboardInterrupt, the processes of the attempt are ended first."""
    from service.api.environments import requested_environment
    from service.api.submission import parse_spec
    from service.domain.outcome import NotTraced
    from service.sandbox.cancellation import Cancellation

    try:
        parsed = parse_spec(spec, files.keys())
        environment = requested_environment(environments, tier, parsed.environment)
    except ServiceError as error:
        return NotTraced(failure=error.failure())
    cancellation = Cancellation()
    # A thread of its own, as in a service: an attempt that is interrupted ends its processes by its cancellation.
    with ProgressBar() as bar, ThreadPoolExecutor(1, thread_name_prefix="attempt") as executor:
        attempt = executor.submit(
            check.run, parsed, files, environment, cancellation, on_event=bar.take, on_log=bar.print
        )
        try:
            return attempt.result()
        except KeyboardInterrupt:
            cancellation.set("cancelled")
            raise
