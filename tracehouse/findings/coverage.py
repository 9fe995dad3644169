"""Findings about what was not compared, could not be, or is not claimed."""

from collections.abc import Mapping, Sequence

from tracehouse.contract.dims import format_sizes
from tracehouse.contract.key_orders import KeyOrder
from tracehouse.contract.regions import Region
from tracehouse.contract.size_coverage import SizeCoverage
from tracehouse.differential.comparison import Difference
from tracehouse.errors import Failure
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import (
    COVER_SAMPLE,
    COVER_SIZES,
    FIX_CHECK_INPUT,
    READ_BY_KEY,
    RETURN_SAME_OUTPUTS,
    TRACE_ANOTHER_RANK,
    VARY_INPUTS,
)
from tracehouse.findings.source_lines import UNKNOWN_LINE, SourceLine, line_of_failure
from tracehouse.tensors.tensor import TensorSpec

# Why other ranks are not accepted, where the check and the verification say the same.
RANKS_DRAW = "random numbers are drawn"
RANKS_TAKE_DICTS = "the method takes dicts, and other orders of their keys are tried in the ranks of the example alone"

_SHAPES_LISTED_MAX = 4
_REASON_MAX_CHARACTERS = 500


def check_input_refused(case: str, failure: Failure) -> Finding:
    """Return the finding that the eager model raises on a check input, which then says nothing about the trace."""
    return Finding(
        kind=Kind.CHECK_INPUT_REFUSED,
        detail=f"the eager model raises on {case}: {failure.detail}",
        evidence={"case": case, "exception": failure.facts.get("exception")},
        remedy=FIX_CHECK_INPUT,
        **line_of_failure(failure),
    )


def check_input_stopped(case: str, stopped: str) -> Finding:
    """Return the finding that the eager model took too long for a check input. `stopped` says how long."""
    return Finding(
        kind=Kind.CHECK_INPUT_REFUSED,
        detail=f"the eager model was stopped on {case}, which was not compared: {stopped}",
        evidence={"case": case, "exception": None},
        remedy=f"raise budget_s, or {FIX_CHECK_INPUT}",
    )


def dict_order_fixed(method: str, order: KeyOrder, reason: str) -> Finding:
    """Return the finding that a dict's keys must come in this order. `reason` says what another order changes."""
    return Finding(
        kind=Kind.DICT_ORDER_FIXED,
        detail=f"{method} takes {order.subject} in this order alone: {order}; {reason}",
        evidence={"method": method, "path": order.path, "keys": str(order)},
        remedy=READ_BY_KEY,
    )


def fresh_inputs_refused(method: str, failure: Failure) -> Finding:
    """Return the finding that the eager model raises on every input that was drawn after the trace was made."""
    return Finding(
        kind=Kind.FRESH_INPUTS_REFUSED,
        detail=f"{method} raises on every input except the submitted ones, so the artifact could not be compared on "
        f"any other; the last time: {failure.detail}",
        confirmed=True,
        evidence={"method": method, "exception": failure.facts.get("exception")},
        remedy=VARY_INPUTS,
        **line_of_failure(failure),
    )


def fresh_inputs_none(method: str) -> Finding:
    """Return the finding that the inputs have no values, so that no other inputs can be drawn."""
    return Finding(
        kind=Kind.FRESH_INPUTS_NONE,
        detail=f"the inputs of {method} hold no values that could be varied: it was compared on its example alone",
        evidence={"method": method},
    )


def rounding_not_measured(method: str, case: str, reason: str) -> Finding:
    """Return the finding that the eager model gave no answer in float64; `reason` says why."""
    return Finding(
        kind=Kind.ROUNDING_NOT_MEASURED,
        detail=f"{method} on {case}: the outputs are not equal bit by bit, and the tolerance decided whether they are "
        f"the same, because the eager model gave no answer in float64: {reason}",
        evidence={"method": method, "case": case},
    )


def rounding_decides(method: str, case: str, difference: Difference) -> Finding:
    """Return the finding that answers differ where the eager model's answer consists of rounding."""
    return Finding(
        kind=Kind.ROUNDING_DECIDES,
        detail=f"{method} on {case}: {difference.leaf!r} differs, {difference.what}; the answers of both move as "
        "far if only the last bits of these inputs change, so this does not count against the artifact",
        evidence={"method": method, "case": case, **difference.evidence},
    )


def outputs_vary(
    method: str, case: str, outputs: Sequence[TensorSpec], region: Region, sizes: Mapping[str, int]
) -> Finding:
    """Return the finding that both models agree at these sizes, but return other outputs than the contract says.

    `sizes` has a number of elements for each symbol, and lies in `region`.
    """
    returned = [f"{spec.name} {spec.datatype} of {len(spec.shape)} dims" for spec in outputs]
    return Finding(
        kind=Kind.OUTPUTS_VARY,
        detail=f"{method} at {format_sizes(sizes)} returns other outputs than on its example: {', '.join(returned)}",
        confirmed=True,
        evidence={
            "method": method, "case": case, "sizes": dict(sizes), "region": str(region),
            "outputs": [*returned],
        },
        remedy=RETURN_SAME_OUTPUTS,
    )  # fmt: skip


def sizes_refused(method: str, region: Region, failure: Failure | None) -> Finding:
    """Return the finding that nothing could be compared in a region of sizes. `failure` is the last error, if any."""
    why = "nothing could be compared there" if failure is None else f"the last time: {failure.detail}"
    return Finding(
        kind=Kind.SIZES_REFUSED,
        detail=f"the eager model raises in {method} at every size that was tried of {region}; {why}",
        evidence={"method": method, "region": str(region)},
        **(UNKNOWN_LINE if failure is None else line_of_failure(failure)),
    )


def sizes_left_out(method: str, left_out: Sequence[str], budget_s: float) -> Finding:
    """Return the finding that sizes which the check found right were not verified within `budget_s` seconds."""
    sizes = [*dict.fromkeys(left_out)]
    count = "one was" if len(sizes) == 1 else f"{len(sizes)} were"
    return Finding(
        kind=Kind.SIZES_LEFT_OUT,
        detail=f"of the sizes of {method} that the check tried or proved, {count} not compared once more in "
        f"{budget_s:.3g} s: {'; '.join(sizes)}",
        evidence={"method": method, "sizes": [*sizes]},
        remedy="set check.budget to deep",
    )


def sizes_not_covered(coverage: SizeCoverage) -> Finding:
    """Return the finding that the contract does not accept all sizes that the request wants."""
    first = f"; the first that is missing is {format_sizes(coverage.missing)}" if coverage.missing else ""
    why = f": {coverage.reason}" if coverage.reason else ""
    return Finding(
        kind=Kind.SIZES_NOT_COVERED,
        detail=f"the contract accepts {coverage}, of those that the request wants{first}{why}",
        confirmed=True,
        evidence=coverage.model_dump(mode="json"),
        remedy=COVER_SIZES,
    )


def sample_not_covered(method: str, case: str, reason: str) -> Finding:
    """Return the finding that the contract does not accept a sample."""
    return Finding(
        kind=Kind.SIZES_NOT_COVERED,
        detail=f"the contract of {method} does not accept {case}: {reason}",
        confirmed=True,
        evidence={"method": method, "case": case},
        remedy=COVER_SAMPLE,
    )


def ranks_not_covered(
    method: str, case: str, shapes: Mapping[str, Sequence[int]], reason: str, line: SourceLine = UNKNOWN_LINE
) -> Finding:
    """Return the finding that the contract accepts no inputs of the ranks that a check input or sample has."""
    listed = ", ".join(f"{name!r} as {list(shape)}" for name, shape in [*shapes.items()][:_SHAPES_LISTED_MAX])
    text = reason if len(reason) <= _REASON_MAX_CHARACTERS else f"{reason[:_REASON_MAX_CHARACTERS]} ..."
    return Finding(
        kind=Kind.RANKS_NOT_COVERED,
        detail=f"{case} has {listed}, and the contract of {method} does not accept these ranks: {text}",
        evidence={"method": method, "case": case},
        remedy=TRACE_ANOTHER_RANK,
        **line,
    )


def range_refused(method: str, leaf: str, value: int, failure: Failure) -> Finding:
    """Return the finding that the eager model raises at `value`, an end of the range that was claimed for a leaf."""
    return Finding(
        kind=Kind.RANGE_REFUSED,
        detail=f"the eager model raises in {method} for {value} in {leaf!r}, which the check took to be within its "
        f"range: {failure.detail}",
        evidence={"method": method, "input": leaf, "value": value},
        **line_of_failure(failure),
    )


def rows_depend(method: str, symbol: str, reason: str) -> Finding:
    """Return the finding that rows along a symbol get other answers together than alone; `reason` says which."""
    return Finding(
        kind=Kind.ROWS_DEPEND,
        detail=f"several requests to {method} cannot be answered in one call along {symbol!r}: {reason}",
        evidence={"method": method, "symbol": symbol},
    )


def proof_void(method: str, region: Region, sizes: Mapping[str, int]) -> Finding:
    """Return the finding that a call contradicts a proof, so that nothing is claimed of its region."""
    return Finding(
        kind=Kind.PROOF_VOID,
        detail=f"{method}: the sizes {region} seemed proven, and a call with {format_sizes(sizes)} differs",
        confirmed=True,
        evidence={"method": method, "region": str(region), "sizes": dict(sizes)},
    )


def probes_left_out(names: Sequence[str], reason: str) -> Finding:
    """Return the finding that these probes were not tried."""
    return Finding(
        kind=Kind.PROBES_LEFT_OUT,
        detail=f"{reason}, so these were not tried: {', '.join(names)}",
        evidence={"probes": [*names]},
        remedy="raise budget_s, or send what matters as a check input",
    )


def layouts_left_out(names: Sequence[str], seconds: float) -> Finding:
    """Return the finding that these layouts of the inputs were not tried. Their calls had so many seconds."""
    reason = f"the calls in other layouts took over {seconds:.3g} s, or more memory than there is"
    return probes_left_out(names, reason)


def layer_failed(layer: str, method: str, error: str, line: SourceLine) -> Finding:
    """Return the finding that a layer of the check stopped with an error. `error` is its type and its text."""
    return Finding(
        kind=Kind.LAYER_FAILED,
        detail=f"the check's layer {layer!r} stopped on {method}, and what it would have found is not known: {error}",
        evidence={"method": method, "layer": layer},
        **line,
    )
