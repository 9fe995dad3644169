"""The verdict's sentence: the verdict, and what the check could not finish. Whatever shows a verdict shows this.

Its parts may come from the process that ran submitted code: whoever shows the sentence escapes it.
"""

from collections.abc import Iterator

from tracehouse.contract.contract import Contract
from tracehouse.findings.kinds import Kind, entry_of
from tracehouse.findings.layer_questions import question_of
from tracehouse.findings.trace_check import TraceCheck
from tracehouse.findings.verdict import Verdict

_TEXT_MAX_CHARACTERS = 120
_PARTS_MAX = 4
# Parts of the check that have no layer of their own in `check.layers`.
_CUT_SHORT = (Kind.PROBES_LEFT_OUT, Kind.SIZES_LEFT_OUT)
# The layers that find out which sizes are right.
_SIZE_LAYERS = ("sizes", "prove", "graphs", "calls")


def verdict_sentence(check: TraceCheck, contract: Contract, *, aside: str = "") -> str:
    """Return the verdict and, unless it is `rejected`, which parts of the check broke off or were cut.

    It also says if answers are random: a dropout that is left on by mistake is not to be overlooked. `aside` follows
    the verdict's name.
    """
    is_random = any(method.stochastic for method in contract.methods.values())
    verdict = f"{check.verdict.value}{aside}{', with random answers' if is_random else ''}"
    missing = [*_missing_parts(check), *_sizes_not_proven(check, contract)]
    if check.verdict is Verdict.REJECTED or not missing:
        return verdict
    more = f"; and {len(missing) - _PARTS_MAX} more" if len(missing) > _PARTS_MAX else ""
    return f"{verdict}, but the check is incomplete: {'; '.join(missing[:_PARTS_MAX])}{more}"


def _missing_parts(check: TraceCheck) -> Iterator[str]:
    """Yield the layers that broke off, then those that were cut, then other parts that were cut."""
    for layer, method in _broken_layers(check):
        yield _not_finished(layer, method, "that part of the check broke off")
    for one in check.layers:
        if one.is_cut:
            more = f", and {len(one.left_out) - 1} more" if len(one.left_out) > 1 else ""
            yield _not_finished(one.name, one.method, f"{_shorten('; '.join(one.left_out[:1]))}{more}")
    for kind in _CUT_SHORT:
        entry = entry_of(kind)
        if entry is not None and any(finding.kind == kind for finding in check.findings):
            yield f"{entry.title[0].lower()}{entry.title[1:]}"


def _not_finished(layer: str, method: str, why: str) -> str:
    return f"not checked to the end, of {_shorten(method)}: {_shorten(question_of(layer))} ({why})"


def _broken_layers(check: TraceCheck) -> list[tuple[str, str]]:
    """Return the name and the method of each layer that broke off."""
    failed = [finding.evidence for finding in check.findings if finding.kind == Kind.LAYER_FAILED]
    return [(str(evidence.get("layer")), str(evidence.get("method"))) for evidence in failed]


def _sizes_not_proven(check: TraceCheck, contract: Contract) -> Iterator[str]:
    """Yield the sizes that are only tested or sampled, of the methods whose sizes were not examined to the end."""
    cut = {(one.name, one.method) for one in check.layers if one.is_cut} | {*_broken_layers(check)}
    for name, method in contract.methods.items():
        if any((layer, name) in cut for layer in _SIZE_LAYERS):
            unproven = [one for one in method.regions if one.spans and one.basis in ("tested", "sampled")]
            more = f" (and {len(unproven) - 1} more)" if len(unproven) > 1 else ""
            yield from (f"{_shorten(str(one))}{more} were only {one.basis}" for one in unproven[:1])


def _shorten(text: str) -> str:
    return text if len(text) <= _TEXT_MAX_CHARACTERS else f"{text[:_TEXT_MAX_CHARACTERS]} ..."
