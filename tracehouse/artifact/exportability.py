"""Exportability: whether torch.export can take a model, that is, how ready the model is to leave TorchScript."""

from collections.abc import Iterable, Sequence
from typing import Literal, Self

from pydantic import Field

from tracehouse.frozen import Frozen

# The three ways of torch.jit's own exportability report: export the eager model, export the traced module as if it were
# a model, or translate TorchScript's graph node by node.
ExportWay = Literal["direct", "trace-then-export", "source-to-source"]
ExportOutcome = Literal["succeeded", "differs", "failed", "not-tried"]
Readiness = Literal["ready", "partly", "not", "unknown"]

# How much of each text an attempt keeps, in characters. Chosen: a usual message of torch.export fits, and a hostile one
# cannot fill the manifest.
DETAIL_MAX_CHARACTERS = 2000
ERROR_MAX_CHARACTERS = 200
PLACE_MAX_CHARACTERS = 500

# Without an eager model, or without a trace, fewer ways apply.
_WAYS: dict[str, list[ExportWay]] = {
    "scripted": ["direct", "source-to-source"],
    "uploaded": ["source-to-source"],
}
_EVERY_WAY: list[ExportWay] = ["direct", "trace-then-export", "source-to-source"]


class ExportAttempt(Frozen):
    """The outcome of one way to export one method."""

    method: str
    way: ExportWay = Field(
        description="`direct`: torch.export of the eager model. `trace-then-export`: torch.export of the traced "
        "module. `source-to-source`: torch's TS2EPConverter on the TorchScript."
    )
    outcome: ExportOutcome = Field(
        description="`succeeded`: exported, and equal to the eager model on the example within the check's "
        "tolerance. `differs`: exported, but not equal. `not-tried`: `detail` says why."
    )
    error: str | None = Field(None, max_length=ERROR_MAX_CHARACTERS, description="The exception's type.")
    detail: str | None = Field(
        None, max_length=DETAIL_MAX_CHARACTERS, description="The exception's text, the difference, or a remark."
    )
    file: str | None = Field(
        None, max_length=PLACE_MAX_CHARACTERS, description="A file of the source, or of a library that it uses."
    )
    line: int | None = Field(None, ge=0, lt=2**31)
    source: str | None = Field(None, max_length=PLACE_MAX_CHARACTERS, description="The text of that line.")


class Exportability(Frozen):
    """The attempts of the tracing process. That process ran submitted code, and no other process verified this."""

    readiness: Readiness = Field(
        description="`ready`: direct export of every method succeeded and agreed with eager on the example. "
        "`partly`: at least one attempt succeeded. `not`: no attempt succeeded. `unknown`: nothing was tried."
    )
    note: str = Field(description="The readiness in words, with the first obstacle and its line.")
    attempts: list[ExportAttempt]

    @classmethod
    def of(cls, attempts: Sequence[ExportAttempt]) -> Self:
        """Return the report of these attempts, with the readiness that follows from them."""
        readiness = _readiness(attempts)
        tried = [one for one in attempts if one.way == "direct"] if readiness == "ready" else attempts
        obstacle = next((one for one in tried if one.outcome != "succeeded" or one.detail is not None), None)
        note = _NOTES[readiness] + (f" {_describe_obstacle(obstacle)}" if obstacle is not None else "")
        return cls(readiness=readiness, note=note, attempts=list(attempts))


_NOTES: dict[Readiness, str] = {
    "ready": "torch.export takes the model as it is, and the exported program agrees with eager on the example.",
    "partly": "A part could be exported, but not the whole eager model as it is.",
    "not": "torch.export takes neither the model nor its TorchScript.",
    "unknown": "Nothing was tried.",
}


def plan_attempts(methods: Iterable[str], form: str) -> list[tuple[str, ExportWay]]:
    """Return the attempts to make for an artifact of this form, each as method and way, in order."""
    return [(method, way) for method in methods for way in _WAYS.get(form, _EVERY_WAY)]


def method_to_keep(methods: Iterable[str]) -> str:
    """Return the method whose exported program is kept: a `.pt2` holds only one."""
    names = list(methods)
    return "forward" if "forward" in names else names[0]


def _readiness(attempts: Sequence[ExportAttempt]) -> Readiness:
    direct = [one.outcome == "succeeded" for one in attempts if one.way == "direct"]
    if direct and all(direct):
        return "ready"
    if all(one.outcome == "not-tried" for one in attempts):
        return "unknown"
    return "partly" if any(one.outcome == "succeeded" for one in attempts) else "not"


def _describe_obstacle(attempt: ExportAttempt) -> str:
    where = f" ({attempt.file}:{attempt.line})" if attempt.file is not None and attempt.line is not None else ""
    error = f"{attempt.error}: " if attempt.error is not None else ""
    first = (attempt.detail or attempt.outcome).strip().splitlines()
    return (
        f"The first obstacle: {attempt.way} of {attempt.method}{where}: {error}{first[0] if first else attempt.outcome}"
    )
