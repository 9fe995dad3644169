"""Exportability: what the tracing child tells of torch.export after its last word. Nothing in it can harm the trace."""

from collections.abc import Iterable

from service.sandbox.channel import MalformedFrame
from tracehouse.artifact.exportability import DETAIL_MAX_CHARACTERS, Exportability, ExportAttempt, kept, planned
from tracehouse.artifact.manifest import Form


class Exports:
    """`take` each attempt in the order in which they were planned, or say what `cut_short` the rest."""

    def __init__(self, methods: Iterable[str], form: Form) -> None:
        methods = list(methods)
        self._planned = planned(methods, form)
        self._of_program = (kept(methods), "direct")
        self._told: list[ExportAttempt] = []
        self._refused: str | None = None

    @property
    def are_complete(self) -> bool:
        return len(self._told) == len(self._planned)

    @property
    def exportability(self) -> Exportability:
        return Exportability.of(self._told)

    @property
    def expect_program(self) -> bool:
        """Whether the next attempt is the one whose program is kept."""
        return self._planned[len(self._told)] == self._of_program

    @property
    def have_program(self) -> bool:
        """Whether there is an attempt to which the program belongs."""
        return any((one.method, one.way) == self._of_program and one.outcome == "succeeded" for one in self._told)

    def take(self, attempt: ExportAttempt) -> None:
        if (attempt.method, attempt.way) != self._planned[len(self._told)]:
            raise MalformedFrame(f"{attempt.way} of {attempt.method} was not to come")
        if self.expect_program and self._refused is not None:
            attempt = attempt.model_copy(update={"detail": self._refused})
        self._told.append(attempt)

    def refuse_program(self, why: str) -> None:
        self._refused = why[:DETAIL_MAX_CHARACTERS]

    def cut_short(self, why: str) -> None:
        """The one that was being tried has failed by this, and no other was tried."""
        (method, way), *others = self._planned[len(self._told) :]
        self._told.append(ExportAttempt(method=method, way=way, outcome="failed", detail=why[:DETAIL_MAX_CHARACTERS]))
        never = f"{way} of {method} was the last to be tried, for it did not end as it should"
        self._told += [ExportAttempt(method=m, way=w, outcome="not-tried", detail=never) for m, w in others]
