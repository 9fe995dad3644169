"""`tracehouse verify`: holds an archive to the contract and the golden cases that it carries; no service runs."""

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from service.cli import contract_table
from service.cli.environment import settings_of
from service.cli.usage_errors import refuse
from service.sandbox.log_tail import printable

if TYPE_CHECKING:  # no other command is to wait for these
    from service.sandbox.tiers import Tier
    from service.settings import Settings
    from workers.archive_check import CheckLimits

# A large archive on a slow disk is read twice.
_LOAD_S = 600.0


def verify(
    archive: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An archive that Tracehouse made.")],
) -> None:
    """Check an archive against its own contract and golden cases. Exits with 1 if it fails, with 2 if it has none.

    Golden cases are compared by their values. Inputs drawn at the contract's sizes have no answer to be compared with:
    of theirs, datatypes and shapes are.
    """
    from service.domain.errors import SandboxUnavailable
    from service.sandbox.zygote import Zygote, ZygoteFailed
    from workers.archive_check import PROGRAMS, ArchiveCheck, NoContract

    if not archive.is_file():
        refuse(f"{archive} is no file")
    settings = settings_of(None)
    tier = _tier(settings.sandbox)
    held = True
    try:
        with Zygote(["workers.programs.runner_warmup", *PROGRAMS], tier=tier) as zygote, archive.open("rb") as file:
            check = ArchiveCheck(zygote, file, _limits(settings))
            told = check.contract.model_dump(mode="json")
            Console().print(contract_table.table_of(told))
            for line in contract_table.sizes_of(told):
                typer.echo(printable(line))
            for found in check.run(version("torch")):
                typer.echo(printable(f"{found.mark:<5} {found.what:<20} {found.text}"))
                held = held and found.mark != "FAIL"
    except NoContract as error:
        refuse(printable(f"{archive}: {error}"))
    except (ZygoteFailed, SandboxUnavailable) as error:
        refuse(str(error))
    raise typer.Exit(0 if held else 1)


def _tier(wanted: str) -> "Tier":
    from service.sandbox.choose_tier import NoTierHolds, choose

    try:
        tier = choose(wanted)
    except NoTierHolds as error:
        refuse(str(error))
    if not tier.confines:
        typer.echo("WARN  the archive is run, and is NOT confined", err=True)
    return tier


def _limits(settings: "Settings") -> "CheckLimits":
    from service.sandbox.limits import Limits
    from workers.archive_check import CheckLimits

    child = Limits(
        address_space_mib=settings.runner_memory_mib,
        cpu_s=settings.trace_cpu_s,
        open_files=settings.child_open_files_max,
        threads=settings.child_threads_max,
    )
    return CheckLimits(child, settings.runner_threads, _LOAD_S, settings.infer_timeout_s)
