"""`tracehouse verify`: checks an archive against the contract and the golden cases that it carries, with no service.

What is only read from the file is kept apart from what is checked here, and from whose word it is.
"""

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeVar

import typer
from rich.console import Console

from service.cli import contract_table
from service.cli.archive_origin import ArchiveOrigin, read_origin
from service.cli.environment import settings_of
from service.cli.json_output import Json, print_json
from service.cli.usage_errors import refuse
from service.storage.file_digests import compute_digest
from tracehouse.artifact.blob import DIGEST_PATTERN
from tracehouse.printable_text import printable

if TYPE_CHECKING:  # imported where they are used, so that no other command waits for them
    from service.sandbox.tiers import Tier
    from service.settings import Settings
    from workers.archive_check import ArchiveCheck, CheckLimits, Claim
    from workers.contract_check import CheckLine

Line = TypeVar("Line", "CheckLine", "Claim")

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
    as_json: Json = False,
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
    report = _Report(archive, is_printed=not as_json)
    with archive.open("rb") as file:
        report.origin = [*origin.check_file(report.digest_of(file))]
        if _any_failed(report.origin):
            report.say_origin()
        else:
            tier = _tier(settings.sandbox)
            try:
                with Zygote(["workers.programs.runner_warmup", *PROGRAMS], tier=tier) as zygote:
                    report.check(ArchiveCheck(zygote, file, _limits(settings)), origin)
            except NoContract as error:
                refuse(f"{printable(f'{archive}: {error}')} tracehouse download writes archives that can be verified.")
            except (ZygoteFailed, SandboxUnavailable) as error:
                refuse(str(error))
    if as_json:
        print_json(report.document(is_origin_known=origin.is_asked_for))
    if report.failed:
        raise typer.Exit(_FAILED)
    raise typer.Exit(0 if origin.is_asked_for else _UNKNOWN_ORIGIN)


class _Report:
    """What the file says, what is checked here and whose word it is. It is printed as it comes, or is a document."""

    def __init__(self, archive: Path, *, is_printed: bool) -> None:
        self._archive = archive
        self._is_printed = is_printed
        self._digest = ""
        self._contract: dict[str, Any] | None = None
        self._claims: list[Claim] = []
        self._checked: list[CheckLine] = []
        self.origin: list[CheckLine] = []

    @property
    def failed(self) -> bool:
        return _any_failed([*self._claims, *self._checked, *self.origin])

    def digest_of(self, file: BinaryIO) -> str:
        """Return the digest of the file's bytes."""
        self._digest = compute_digest(file)
        self._say(printable(f"{self._archive}: {self._digest}"))
        return self._digest

    def check(self, check: "ArchiveCheck", origin: ArchiveOrigin) -> None:
        self._say("\nOnly read from the file, in which its writer may say anything")
        self._contract = check.contract.model_dump(mode="json")
        self._say_contract(self._contract)
        self._claims = [*self._saying(check.claims(version("torch")))]
        self._say("\nChecked here")
        self._checked = [*self._saying(check.run())]
        self.origin += origin.check_content(check.check.verdict, check.contract_digest)
        if origin.is_asked_for:
            self.say_origin()
        else:
            self._say(_UNKNOWN)

    def say_origin(self) -> None:
        self._say("\nWhose word it is")
        for _ in self._saying(self.origin):
            pass

    def document(self, *, is_origin_known: bool) -> dict[str, Any]:
        """Return all of it for programs; without --digest and --key, `origin` is null."""
        return {
            "archive": str(self._archive),
            "digest": self._digest,
            "passed": not self.failed,
            "only_read": {"contract": self._contract, "claims": self._claims},
            "checked": self._checked,
            "origin": self.origin if is_origin_known else None,
        }

    def _saying(self, lines: "Iterable[Line]") -> "Iterator[Line]":
        """Yield the lines; each is printed when it comes."""
        for line in lines:
            self._say(_one_line(f"{line.mark:<5} {line.what:<20} {line.text}"))
            yield line

    def _say_contract(self, contract: dict[str, Any]) -> None:
        if not self._is_printed:
            return
        Console().print(contract_table.contract_table(contract))
        for line in contract_table.size_lines(contract):
            typer.echo(_one_line(line))

    def _say(self, line: str) -> None:
        if self._is_printed:
            typer.echo(line)


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
    return CheckLimits(child, settings.usual_threads, _LOAD_S, settings.infer_timeout_s)
