"""Exportability: what torch.export made of a model, and so how ready it is for life after TorchScript."""

from collections.abc import Iterable, Sequence
from typing import Literal, Self

from pydantic import Field

from tracehouse.frozen import Frozen

# What torch.jit.trace tries for its own report: the eager model, the traced module run as a model, and TorchScript's
# graph translated node by node.
ExportWay = Literal["direct", "trace-then-export", "source-to-source"]
ExportOutcome = Literal["succeeded", "differs", "failed", "not-tried"]
Readiness = Literal["ready", "partly", "not", "unknown"]

DETAIL_MAX_CHARACTERS = 2000
ERROR_MAX_CHARACTERS = 200
PLACE_MAX_CHARACTERS = 500

# Where there is no eager model, or no trace, there is less to try.
_WAYS: dict[str, list[ExportWay]] = {
    "scripted": ["direct", "source-to-source"],
    "uploaded": ["source-to-source"],
}
_EVERY_WAY: list[ExportWay] = ["direct", "trace-then-export", "source-to-source"]


class ExportAttempt(Frozen):
    """One way to export one method, and what came of it."""

    method: str
    way: ExportWay = Field(
        description="`direct`: torch.export of the eager model. `trace-then-export`: the same of the traced module. "
        "`source-to-source`: torch's TS2EPConverter on the TorchScript."
    )
    outcome: ExportOutcome = Field(
        description="`succeeded`: exported, and on the example as close to the eager model as the check's tolerance "
        "asks. `differs`: exported, and not as close. `not-tried`: `detail` says why."
    )
    error: str | None = Field(None, max_length=ERROR_MAX_CHARACTERS, description="The exception's type.")
    detail: str | None = Field(
        None, max_length=DETAIL_MAX_CHARACTERS, description="What was raised, how it differs, or what to know."
    )
    file: str | None = Field(
        None, max_length=PLACE_MAX_CHARACTERS, description="Of the source, or of a library that it uses."
    )
    line: int | None = Field(None, ge=0, lt=2**31)
    source: str | None = Field(None, max_length=PLACE_MAX_CHARACTERS, description="The text of that line.")


class Exportability(Frozen):
    """As the process that traced says it: it ran the model's code, and nothing here was verified by another one."""

    readiness: Readiness = Field(
        description="`ready`: direct export of every method succeeded, and agreed with eager on the example. "
        "`partly`: something could be exported. `not`: nothing. `unknown`: nothing was tried."
    )
    note: str = Field(description="The same in words, with the first obstacle and its line.")
    attempts: list[ExportAttempt]

    @classmethod
    def of(cls, attempts: Sequence[ExportAttempt]) -> Self:
        readiness = _readiness(attempts)
        tried = [one for one in attempts if one.way == "direct"] if readiness == "ready" else attempts
        obstacle = next((one for one in tried if one.outcome != "succeeded" or one.detail is not None), None)
        note = _IN_WORDS[readiness] + (f" {_told(obstacle)}" if obstacle is not None else "")
        return cls(readiness=readiness, note=note, attempts=list(attempts))


_IN_WORDS: dict[Readiness, str] = {
    "ready": "torch.export takes the model as it is, and its program agrees with eager on the example.",
    "partly": "Some of it could be exported, though not all of the eager model as it is.",
    "not": "torch.export takes neither the model nor its TorchScript.",
    "unknown": "Nothing was tried.",
}


def planned(methods: Iterable[str], form: str) -> list[tuple[str, ExportWay]]:
    """What is tried for an artifact of this form, in this order."""
    return [(method, way) for method in methods for way in _WAYS.get(form, _EVERY_WAY)]


def kept(methods: Iterable[str]) -> str:
    """The method whose exported program is kept: of several, a `.pt2` has one."""
    names = list(methods)
    return "forward" if "forward" in names else names[0]


def _readiness(attempts: Sequence[ExportAttempt]) -> Readiness:
    direct = [one.outcome == "succeeded" for one in attempts if one.way == "direct"]
    if direct and all(direct):
        return "ready"
    if all(one.outcome == "not-tried" for one in attempts):
        return "unknown"
    return "partly" if any(one.outcome == "succeeded" for one in attempts) else "not"


def _told(attempt: ExportAttempt) -> str:
    where = f" ({attempt.file}:{attempt.line})" if attempt.file is not None and attempt.line is not None else ""
    error = f"{attempt.error}: " if attempt.error is not None else ""
    first = (attempt.detail or attempt.outcome).strip().splitlines()
    return (
        f"The first obstacle: {attempt.way} of {attempt.method}{where}: {error}{first[0] if first else attempt.outcome}"
    )
