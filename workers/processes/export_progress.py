"""Export progress: what the tracing child reports of torch.export after `Traced`. Nothing in it can harm the trace."""

from collections.abc import Iterable

from service.sandbox.channel import MalformedFrame
from tracehouse.artifact.exportability import (
    DETAIL_MAX_CHARACTERS,
    Exportability,
    ExportAttempt,
    method_to_keep,
    plan_attempts,
)
from tracehouse.artifact.manifest import Form


class ExportProgress:
    """`take` each attempt in the order in which they were planned, or say what `cut_short` the rest."""

    def __init__(self, methods: Iterable[str], form: Form) -> None:
        methods = list(methods)
        self._planned = plan_attempts(methods, form)
        self._of_program = (method_to_keep(methods), "direct")
        self._attempts: list[ExportAttempt] = []
        self._refusal: str | None = None

    @property
    def is_complete(self) -> bool:
        return len(self._attempts) == len(self._planned)

    @property
    def exportability(self) -> Exportability:
        return Exportability.of(self._attempts)

    @property
    def expects_program(self) -> bool:
        """Whether the next attempt is the one whose exported program is stored."""
        return self._planned[len(self._attempts)] == self._of_program

    @property
    def has_program(self) -> bool:
        """Whether the attempt whose exported program is stored succeeded."""
        return any((one.method, one.way) == self._of_program and one.outcome == "succeeded" for one in self._attempts)

    def take(self, attempt: ExportAttempt) -> None:
        """Raises MalformedFrame where another attempt was to come."""
        if (attempt.method, attempt.way) != self._planned[len(self._attempts)]:
            raise MalformedFrame(f"{attempt.way} of {attempt.method} was not to come")
        if self.expects_program and self._refusal is not None:
            attempt = attempt.model_copy(update={"detail": self._refusal})
        self._attempts.append(attempt)

    def refuse_program(self, why: str) -> None:
        self._refusal = why[:DETAIL_MAX_CHARACTERS]

    def cut_short(self, why: str) -> None:
        """Note that the attempt under way failed for this reason, and that those after it were not made."""
        (method, way), *others = self._planned[len(self._attempts) :]
        failed = ExportAttempt(method=method, way=way, outcome="failed", detail=why[:DETAIL_MAX_CHARACTERS])
        never = f"{way} of {method} was the last to be tried, for it did not end as it should"
        left = [ExportAttempt(method=m, way=w, outcome="not-tried", detail=never) for m, w in others]
        self._attempts += [failed, *left]
