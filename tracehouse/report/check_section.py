"""The trace check in the report: what was compared, which layers did it, and what torch alone would have said."""

from collections.abc import Iterator, Sequence

from tracehouse.differential.comparison import Outcome
from tracehouse.findings.check_memory import CheckMemory
from tracehouse.findings.comparison import Comparison, inputs_sentence, outcome_lines
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.report import histogram
from tracehouse.report.causes import depending_rows
from tracehouse.report.markup import Html, code, details, element, join, lines, prose, table
from tracehouse.report.rounding import round_numbers

_ROWS_DEPEND = "Rows of a batch influence one another:"


def render_depending_rows(check: TraceCheck) -> Html:
    """Return the warning that rows of a batch influence one another, if that was found."""
    found = depending_rows(check.findings)
    said = [element("p", element("strong", _ROWS_DEPEND), " ", prose(round_numbers(one.detail))) for one in found]
    return element("div", *said, class_="rows-depend") if said else Html("")


def render_layers(check: TraceCheck) -> Html:
    """Return the layers of the check as a table: what each did, and what it left out."""
    return join([*_layers(check), *_memory(check.memory)])


def render_comparisons(check: TraceCheck) -> Html:
    """Return the calls that were compared, as a picture and as a table."""
    return join(_comparisons(check))


def render_torch(check: TorchCheck) -> Html:
    """Return the result of torch's own check, and the warnings of its tracer."""
    return join(_torch(check))


def _comparisons(check: TraceCheck) -> Iterator[Html]:
    comparisons, tolerance = check.comparisons, check.tolerance
    if not comparisons:
        yield element("p", "Nothing was compared.")
        return
    differing = sum(not one.agrees for one in comparisons)
    yield element(
        "p",
        f"{len(comparisons)} calls of the eager model and of the artifact on the same inputs: "
        f"{len(comparisons) - differing} agree, {differing} differ. Where the model's own rounding was not measured, "
        f"the relative tolerance of {tolerance:g} decided.",
    )
    yield element("p", f"{inputs_sentence(check.samples)}.")
    yield from (element("p", f"{line}.") for line in outcome_lines(comparisons))
    legend = (
        "Solid green: calls that agree. Hatched red: calls that differ. “Exact” is no difference at all, “none” one "
        "that is no number: other shapes, or only one of the two raises."
    )
    caption = element("figcaption", legend)
    yield element("figure", Html(f'<div class="scroll">{histogram.histogram_of(comparisons)}</div>'), caption)
    headings = ("Case", "Method", "In the contract", "Result", "Largest difference", "What differs")
    yield details("All comparisons", table("Comparisons", headings, map(_comparison, comparisons)))


def _comparison(one: Comparison) -> Sequence[object]:
    largest = "–" if one.largest_difference is None else f"{one.largest_difference:.4g}"
    in_contract = "yes" if one.in_contract else "no"
    return one.case, one.method, in_contract, _result(one), largest, round_numbers(one.difference or "–")


def _result(one: Comparison) -> str:
    if one.outcome is Outcome.LIMITED:
        return f"✓ agrees as far as eager is exact ({one.condition:.2g} roundings)"
    if one.outcome is Outcome.INCONCLUSIVE:
        return "✗ differs, perhaps by rounding"
    return "✓ agrees" if one.agrees else "✗ differs"


def _layers(check: TraceCheck) -> Iterator[Html]:
    if check.budget_s is not None:
        name = f"the budget {check.budget}, " if check.budget is not None else "a budget of "
        yield element("p", f"The check had {name}{check.budget_s:.3g} s of processor time beside the trace.")
    if not check.layers:
        yield element("p", "No layers were reported.")
        return
    rows = ((one.name, one.method, f"{one.seconds:.2f}", one.summary, lines(one.left_out)) for one in check.layers)
    yield table("Layers of the check", ("Layer", "Method", "Seconds", "What it did", "What it left out"), rows)


def _memory(memory: CheckMemory | None) -> Iterator[Html]:
    """Yield what was left out because the whole check did not fit into memory, if anything was."""
    if memory is not None and memory.left_out:
        yield element("p", "The check had too little memory for all of it, and left out:")
        yield lines(memory.left_out)


def _torch(check: TorchCheck) -> Iterator[Html]:
    yield element("p", _torch_verdict(check))
    if check.message:
        yield details("Its message", element("pre", check.message))
    if not check.warnings:
        yield element("p", "Its tracer warned of nothing.")
        return
    rows = (
        (one.kind, code(f"{one.file}:{one.line}") if one.file else "–", code(one.source or ""), one.message)
        for one in check.warnings
    )
    yield table("Warnings of its tracer", ("Kind", "Line", "Source", "Message"), rows)


def _torch_verdict(check: TorchCheck) -> str:
    if not check.ran:
        return f"Its own check did not run{f': {check.error}' if check.error else '.'}"
    if check.passed is None:
        return f"Its own check could not be brought to its end{f': {check.error}' if check.error else '.'}"
    return "Its own check passed." if check.passed else "Its own check refused the trace."
