"""Mode auto: which ways to make an artifact are tried, and which is kept.

A trace comes first. Where its verification leaves doubts, the parts of the model that read values are scripted, and
then the whole model. Each way is a device trace of its own, with its own children: what one does, no other one sees.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracehouse.artifact.conversion_attempt import ConversionAttempt
from tracehouse.contract.contract import Contract
from tracehouse.errors import ArchiveUnusable, ModelCrashed, TraceError, UnsupportedOutput, UntraceableModel
from tracehouse.findings.trace_check import RESTRICTING, TraceCheck, Verdict, reads_value
from tracehouse.spec.conversion import Conversion
from workers.device_trace import DeviceTrace

# What tracing cannot do, scripting may: all else would be the same again. A trace can crash its process: an operator
# raises while it is recorded, and the model catches that.
_OF_TRACING = (UntraceableModel, UnsupportedOutput, ArchiveUnusable, ModelCrashed)
_DETAIL_MAX_CHARACTERS = 1000
_OF_VALUES = frozenset({"baked-value"})
_BEST = 0, False
_RANK = [*Verdict]  # from the best to the worst

Make = Callable[[Conversion], DeviceTrace]


@dataclass(frozen=True)
class _Attempted:
    way: Conversion
    came: DeviceTrace | TraceError

    @property
    def rank(self) -> tuple[int, bool, int]:
        """Lowest is best: the verdict, then no doubts, then the wider contract."""
        if isinstance(self.came, TraceError):
            return len(_RANK), True, 0
        check = self.came.check
        return _RANK.index(check.verdict), bool(_doubts(check)), -_openness(self.came.contract)

    @property
    def is_best(self) -> bool:
        """So that nothing else need be tried."""
        return self.rank[:2] == _BEST

    def tried(self, *, kept: bool) -> ConversionAttempt:
        if isinstance(self.came, TraceError):
            verdict, detail = None, self.came.detail
        else:
            verdict, detail = self.came.check.verdict, "; ".join(_doubts(self.came.check))
        return ConversionAttempt(
            way=str(self.way), verdict=verdict, kept=kept, detail=detail[:_DETAIL_MAX_CHARACTERS] or None
        )


def made(make: Make) -> DeviceTrace:
    """The best of the ways, which knows what was tried. Raises what tracing raised, where no way gives an artifact."""
    attempted = [_attempted(make, Conversion(), tolerated=_OF_TRACING)]
    for way in _further(attempted[0]):
        if attempted[-1].is_best:
            break
        attempted.append(_attempted(make, way, tolerated=(TraceError,)))
    best = min(attempted, key=lambda one: one.rank)
    if isinstance(best.came, TraceError):
        raise best.came
    best.came.attempts = [one.tried(kept=one is best) for one in attempted]
    return best.came


def _attempted(make: Make, way: Conversion, *, tolerated: tuple[type[TraceError], ...]) -> _Attempted:
    try:
        return _Attempted(way, make(way))
    except tolerated as error:
        if error.fault == "service":
            raise
        return _Attempted(way, error)


def _further(first: _Attempted) -> list[Conversion]:
    whole = Conversion(mode="script")
    if isinstance(first.came, TraceError):
        return [whole]
    if first.came.form != "traced":  # it was a ScriptModule already
        return []
    return [Conversion(scripted=first.came.in_doubt), whole] if first.came.in_doubt else [whole]


def _doubts(check: TraceCheck) -> Sequence[str]:
    """What may be wrong elsewhere, though no input was found that shows it: of reads whose effect is known and harmless
    there is none."""
    told = [
        one for one in check.findings if one.kind in _OF_VALUES | RESTRICTING or one.effect in ("harmful", "unknown")
    ]
    judged = {(one.file, one.line) for one in check.findings if one.effect is not None}
    read = [warning for warning in check.torch.warnings if reads_value(warning.kind)]
    unjudged = [warning for warning in read if (warning.file, warning.line) not in judged]
    found = [_doubt(one.file, one.line, "its size" if one.kind in RESTRICTING else "a value") for one in told]
    return list(dict.fromkeys([*found, *(_doubt(one.file, one.line, "a value") for one in unjudged)]))


def _doubt(file: str | None, line: int | None, what: str) -> str:
    return f"{file}:{line} keeps {what} of the example's" if file else f"it keeps {what} of the example's"


def _openness(contract: Contract) -> int:
    """How many symbols its inputs' sizes have."""
    return sum(len({symbol for region in one.regions for symbol in region.spans}) for one in contract.methods.values())
