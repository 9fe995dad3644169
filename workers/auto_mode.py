"""Mode auto: which conversions are tried, and which one is used.

A trace comes first. Where its verification leaves warnings, the parts of the model that read values are scripted, and
then the whole model. Each conversion is a device trace of its own, with its own children: none sees what another does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracehouse.artifact.conversion_attempt import ConversionAttempt
from tracehouse.contract.contract import Contract
from tracehouse.errors import ArchiveUnusable, ModelCrashed, TraceError, UnsupportedOutput, UntraceableModel
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import BAKED, Kind
from tracehouse.findings.remedies import without_mode_auto
from tracehouse.findings.trace_check import TraceCheck, reads_value
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.conversion import Conversion
from workers.device_trace import DeviceResult

# What tracing cannot do, scripting may; every other error would come again. A trace can crash its process: an operator
# raises while it is recorded, and the model catches that.
_TRACING_ERRORS = (UntraceableModel, UnsupportedOutput, ArchiveUnusable, ModelCrashed)
_WOULD_COME_AGAIN = "not tried: the error of the trace is not one of tracing, so scripting would end with it too"
_DETAIL_MAX_CHARACTERS = 1000
_BEST = 0, False

Convert = Callable[[Conversion], DeviceResult]


@dataclass(frozen=True)
class _Trial:
    """A conversion that was tried, and its result or the error that it ended with."""

    conversion: Conversion
    result: DeviceResult | TraceError

    @property
    def rank(self) -> tuple[int, bool, int]:
        """The lowest is the best: by verdict, then without warnings, then by the wider contract."""
        if isinstance(self.result, TraceError):
            return len(Verdict), True, 0
        check = self.result.check
        openness = _count_symbols(self.result.verification.contract)
        return check.verdict.rank, bool(_baked_parts(check)), -openness

    @property
    def is_best(self) -> bool:
        """Whether no other conversion can be better, but for its contract."""
        return self.rank[:2] == _BEST

    def attempt(self, *, kept: bool) -> ConversionAttempt:
        if isinstance(self.result, TraceError):
            verdict, detail = None, self.result.detail
        else:
            verdict, detail = self.result.check.verdict, "; ".join(_baked_parts(self.result.check))
        return ConversionAttempt(
            way=str(self.conversion), verdict=verdict, kept=kept, detail=detail[:_DETAIL_MAX_CHARACTERS] or None
        )


def find_best(convert: Convert) -> DeviceResult:
    """Return the best conversion's result, with all attempts.

    If no conversion works, raises what tracing raised, with all attempts among its facts.
    """
    trials = [_try(convert, Conversion())]
    for conversion in _further_conversions(trials[0]):
        if trials[-1].is_best:
            break
        trials.append(_try(convert, conversion))
    best = min(trials, key=lambda one: one.rank)
    if isinstance(best.result, TraceError):
        raise _add_attempts(best.result, trials)
    attempts = [one.attempt(kept=one is best) for one in trials]
    return best.result.with_attempts(attempts).with_findings([*map(_without_mode_auto, best.result.check.findings)])


def _add_attempts(error: TraceError, trials: Sequence[_Trial]) -> TraceError:
    """Return the error with what was tried, and a remedy that does not advise mode auto."""
    attempts = [one.attempt(kept=False) for one in trials]
    if not isinstance(error, _TRACING_ERRORS):
        attempts.append(ConversionAttempt(way="script", verdict=None, kept=False, detail=_WOULD_COME_AGAIN))
    remedy = error.facts.get("remedy", error.remedy())
    error.facts = {
        **error.facts,
        "attempts": [one.model_dump(mode="json") for one in attempts],
        **({"remedy": without_mode_auto(remedy)} if remedy is not None else {}),
    }
    return error


def _without_mode_auto(finding: Finding) -> Finding:
    if finding.remedy is None:
        return finding
    return finding.model_copy(update={"remedy": without_mode_auto(finding.remedy)})


def _try(convert: Convert, conversion: Conversion) -> _Trial:
    try:
        return _Trial(conversion, convert(conversion))
    except TraceError as error:
        if error.fault == "service":
            raise
        return _Trial(conversion, error)


def _further_conversions(first: _Trial) -> list[Conversion]:
    script_all = Conversion(mode="script")
    if isinstance(first.result, TraceError):
        return [script_all] if isinstance(first.result, _TRACING_ERRORS) else []
    traced = first.result.tracer.traced
    if traced.form != "traced":  # it was a ScriptModule already
        return []
    # Which parts these are, the tracing child says: no verdict depends on it.
    return [Conversion(scripted=traced.in_doubt), script_all] if traced.in_doubt else [script_all]


def _baked_parts(check: TraceCheck) -> Sequence[str]:
    """Return what the trace may have baked in wrongly, though no input shows it.

    Reads whose effect is known to be harmless are left out.
    """
    findings = [one for one in check.findings if one.kind in BAKED or one.effect in ("harmful", "unknown")]
    judged = {(one.file, one.line) for one in check.findings if one.effect is not None}
    reads = [warning for warning in check.torch.warnings if reads_value(warning.kind)]
    unjudged = [warning for warning in reads if (warning.file, warning.line) not in judged]
    texts = [_text(one.file, one.line, "its size" if one.kind == Kind.BAKED_SIZE else "a value") for one in findings]
    return list(dict.fromkeys([*texts, *(_text(one.file, one.line, "a value") for one in unjudged)]))


def _text(file: str | None, line: int | None, what: str) -> str:
    return f"{file}:{line} keeps {what} of the example's" if file else f"it keeps {what} of the example's"


def _count_symbols(contract: Contract) -> int:
    """Return how many symbols the inputs' sizes have."""
    return sum(len({symbol for region in one.regions for symbol in region.spans}) for one in contract.methods.values())
