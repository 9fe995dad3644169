"""`tracehouse verify`: checks an archive against the contract and the golden cases that it carries, with no service.

What is only read from the file is kept apart from what is checked here, and from whose word it is.
"""

import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.console import Console

from service.cli import contract_table
from service.cli.archive_origin import ArchiveOrigin, read_origin
from service.cli.environment import settings_of
from service.cli.usage_errors import refuse
from service.sandbox.log_tail import printable
from service.storage.file_digests import compute_digest
from tracehouse.artifact.blob import DIGEST_PATTERN

if TYPE_CHECKING:  # imported where they are used, so that no other command waits for them
    from service.sandbox.tiers import Tier
    from service.settings import Settings
    from workers.archive_check import ArchiveCheck, CheckLimits, Claim
    from workers.contract_check import CheckLine

# A large archive on a slow disk is read twice.
_LOAD_S = 600.0

_FAILED, _UNKNOWN_ORIGIN = 1, 3
_UNKNOWN = """
Whose word it is: unknown
The verdict is worth what whoever gave you the file is worth. --digest and --key check who wrote it."""


def verify(
    archive: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An archive that Tracehouse made.")],
    digest: Annotated[
        str | None,
        typer.Option(
            metavar="sha256:…", help="The file must have this digest: `archive.digest` of GET /artifacts/{digest}."
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The file must be signed with the key whose public part this is: GET /signing-keys has it.",
        ),
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="GET /artifacts/{digest}/signature. Default: the archive's name with .dsse.json."
        ),
    ] = None,
) -> None:
    """Check an archive against its own contract and golden cases, and whose word its verdict is.

    The outputs of golden cases are compared by value. Further inputs are drawn at the contract's sizes: no right values
    are known for them, so only the datatypes and shapes of their outputs are compared. The verdict, the findings and
    the contract are only read from the file: anybody may have written them, unless --digest or --key says who did.

    Exits with 0 if every check passed and --digest or --key named the file, with 3 if every check passed and neither
    was given, with 1 if a check failed or the verdict is rejected, and with 2 if the file could not be checked.
    """
    from service.domain.errors import SandboxUnavailable
    from service.sandbox.zygote import Zygote, ZygoteFailed
    from workers.archive_check import PROGRAMS, ArchiveCheck, NoContract

    if not archive.is_file():
        refuse(f"{archive} is not a file")
    if digest is not None and not re.fullmatch(DIGEST_PATTERN, digest):
        raise typer.BadParameter("write sha256: and 64 hexadecimal digits", param_hint="--digest")
    origin = read_origin(archive, digest, key, signature)
    settings = settings_of(None)
    with archive.open("rb") as file:
        from_digest = [*origin.check_file(_print_digest(archive, file))]
        if _any_failed(from_digest):
            _print_lines("Whose word it is", from_digest)
            raise typer.Exit(_FAILED)
        tier = _tier(settings.sandbox)
        try:
            with Zygote(["workers.programs.runner_warmup", *PROGRAMS], tier=tier) as zygote:
                check = ArchiveCheck(zygote, file, _limits(settings))
                passed = _report(check, origin, from_digest)
        except NoContract as error:
            refuse(printable(f"{archive}: {error}"))
        except (ZygoteFailed, SandboxUnavailable) as error:
            refuse(str(error))
    if not passed:
        raise typer.Exit(_FAILED)
    raise typer.Exit(0 if origin.is_asked_for else _UNKNOWN_ORIGIN)


def _print_digest(archive: Path, file: BinaryIO) -> str:
    """Print the digest of the file's bytes, and return it."""
    actual = compute_digest(file)
    typer.echo(printable(f"{archive}: {actual}"))
    return actual


def _report(check: "ArchiveCheck", origin: ArchiveOrigin, from_digest: "list[CheckLine]") -> bool:
    """Print what the file says, what is checked here and whose word it is; False if anything of it failed."""
    typer.echo("\nOnly read from the file, in which its writer may say anything")
    contract = check.contract.model_dump(mode="json")
    Console().print(contract_table.contract_table(contract))
    for line in contract_table.size_lines(contract):
        typer.echo(_one_line(line))
    claims = [*check.claims(version("torch"))]
    _print_each(claims)
    typer.echo("\nChecked here")
    checked = _print_each(check.run())
    known = [*from_digest, *origin.check_content(check.check.verdict, check.contract_digest)]
    if origin.is_asked_for:
        _print_lines("Whose word it is", known)
    else:
        typer.echo(_UNKNOWN)
    return not _any_failed([*claims, *checked, *known])


def _print_lines(heading: str, lines: "Iterable[CheckLine]") -> None:
    typer.echo(f"\n{heading}")
    _print_each(lines)


def _print_each(lines: "Iterable[CheckLine | Claim]") -> "list[CheckLine | Claim]":
    """Print each line when it comes, and return all."""
    printed: list[CheckLine | Claim] = []
    for line in lines:
        typer.echo(_one_line(f"{line.mark:<5} {line.what:<20} {line.text}"))
        printed.append(line)
    return printed


def _one_line(text: str) -> str:
    """Escape line ends too: what is read from the file must not look like a line of this command's own."""
    return printable(text).replace("\n", "\\n")


def _any_failed(lines: "Iterable[CheckLine | Claim]") -> bool:
    return any(line.mark == "FAIL" for line in lines)


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
