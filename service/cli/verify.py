"""`tracehouse verify`: checks an archive against the contract and the golden cases that it carries, with no service."""

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from service.cli import contract_table
from service.cli.environment import settings_of
from service.cli.usage_errors import refuse
from service.sandbox.log_tail import printable

if TYPE_CHECKING:  # imported where they are used, so that no other command waits for them
    from service.sandbox.tiers import Tier
    from service.settings import Settings
    from workers.archive_check import CheckLimits

# A large archive on a slow disk is read twice.
_LOAD_S = 600.0


def verify(
    archive: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An archive that Tracehouse made.")],
) -> None:
    """Check an archive against its own contract and golden cases. Exits with 1 if it fails, with 2 if it has none.

    The outputs of golden cases are compared by value. Further inputs are drawn at the contract's sizes: no right values
    are known for them, so only the datatypes and shapes of their outputs are compared.
    """
    from service.domain.errors import SandboxUnavailable
    from service.sandbox.zygote import Zygote, ZygoteFailed
    from workers.archive_check import PROGRAMS, ArchiveCheck, NoContract

    if not archive.is_file():
        refuse(f"{archive} is not a file")
    settings = settings_of(None)
    tier = _tier(settings.sandbox)
    passed = True
    try:
        with Zygote(["workers.programs.runner_warmup", *PROGRAMS], tier=tier) as zygote, archive.open("rb") as file:
            check = ArchiveCheck(zygote, file, _limits(settings))
            contract = check.contract.model_dump(mode="json")
            Console().print(contract_table.contract_table(contract))
            for line in contract_table.size_lines(contract):
                typer.echo(printable(line))
            for result in check.run(version("torch")):
                typer.echo(printable(f"{result.mark:<5} {result.what:<20} {result.text}"))
                passed = passed and result.mark != "FAIL"
    except NoContract as error:
        refuse(printable(f"{archive}: {error}"))
    except (ZygoteFailed, SandboxUnavailable) as error:
        refuse(str(error))
    raise typer.Exit(0 if passed else 1)


def _tier(wanted: str) -> "Tier":
    from service.sandbox.choose_tier import NoTierHolds, choose

    try:
        tier = choose(wanted)
    except NoTierHolds as error:
        refuse(str(error))
    if not tier.confines:
        typer.echo("WARN  the archive runs, and is NOT confined", err=True)
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
