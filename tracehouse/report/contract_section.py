"""The contract in the report: its inputs, sizes and outputs as tables and pictures."""

from collections.abc import Iterator, Sequence
from itertools import count

import orjson

from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import WITHOUT_FAST_PATHS, Contract, MethodContract
from tracehouse.contract.devices import FOLLOW_INPUTS
from tracehouse.contract.dims import SymbolicShape, format_shape, format_sizes
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import describe_beyond, list_regions
from tracehouse.contract.size_coverage import SizeCoverage
from tracehouse.contract.structure import Argument, BakedLeaf, FixedLeaf, Structure, items_of
from tracehouse.findings.verdict import Verdict
from tracehouse.report import contract_picture
from tracehouse.report.markup import Html, code, details, element, join, lines, table
from tracehouse.report.rounding import round_numbers

_TAKEN = "What the artifact accepts. Anything else is refused, and never answered."
_TAKEN_OPEN = "What is known to be right. Sizes that were never tried are answered too, with a warning."
_TAKEN_REJECTED = "What the artifact accepts. It answers wrongly on some of these inputs too, as the findings say."
_RANDOM_ANSWERS = (
    "Random numbers are drawn: the same inputs get another answer each time, and one seed gives one answer."
)
_REASONS = {
    "model": "the eager model refuses others",
    "trace": "the trace keeps this size, and answers others wrongly",
    "untried": "no other size was tried",
}
_BASIS = {
    "proven": "proven: a run on symbols, in the process that traced, showed that the two compute the same for every "
    "such size, whichever values the model reads",
    "sampled": "sampled: the same was shown, but for other paths, which input values can take, or for the last bits of "
    "a number that is computed from sizes; these were compared at the ends of the region and at random sizes inside",
    "tested": "tested: both were called at each of these sizes, and agreed on the values of these calls",
    "observed": "observed: only the example was called",
}
_INPUT_HEADINGS = ("Input", "Datatype", "Shape", "Traced on", "Why sizes are fixed", "Values")
_OUTPUT_HEADINGS = ("Output", "Datatype", "Shape")


def render_contract(artifact: Artifact) -> Html:
    """Return the artifact's contract as tables."""
    return render_tables(artifact.contract, contract_note(artifact), artifact.check.coverage)


def render_tables(contract: Contract, note: str, coverage: Sequence[SizeCoverage]) -> Html:
    """Return a contract as tables, below a note and the requested sizes that it covers."""
    return join(_tables(contract, note, coverage))


def _tables(contract: Contract, note: str, coverage: Sequence[SizeCoverage]) -> Iterator[Html]:
    yield element("p", note, class_="note")
    if contract.without_fast_paths:
        yield element("p", f"The artifact was compared with the eager model {WITHOUT_FAST_PATHS}.")
    yield from _coverage(coverage)
    numbers = count(1)  # of the pictures
    for name, method in contract.methods.items():
        yield element("h3", "Method ", code(name))
        yield table(f"Inputs of {name}", _INPUT_HEADINGS, map(_input, method.inputs))
        yield contract_picture.picture(name, method, next(numbers), is_open=contract.open)
        yield _regions(name, method, is_open=contract.open)
        yield from _called(method)
        yield from _batch(method)
        if method.stochastic:
            yield element("p", _RANDOM_ANSWERS)
        yield from _baked_arguments(method.arguments)
        yield from _key_orders(method)
        yield from _devices(method)
        yield table(f"Outputs of {name}", _OUTPUT_HEADINGS, map(_output, method.outputs))
        for other in method.by_ranks[1:]:
            yield from _other_ranks(name, other, next(numbers), is_open=contract.open)


def _other_ranks(name: str, method: MethodContract, number: int, *, is_open: bool) -> Iterator[Html]:
    """Yield what is accepted beside the example's ranks, because a check input or sample had these."""
    yield element("p", f"{name} also accepts inputs of these ranks, for which it was checked in the same way:")
    yield table(f"Inputs of {name} in other ranks", _INPUT_HEADINGS, map(_input, method.inputs))
    yield contract_picture.picture(f"{name}, in these ranks,", method, number, is_open=is_open)
    yield _regions(f"{name}, in these ranks,", method, is_open=is_open)
    yield from _called(method)
    yield from _batch(method)
    yield table(f"Outputs of {name} in these ranks", _OUTPUT_HEADINGS, map(_output, method.outputs))


def _coverage(coverage: Sequence[SizeCoverage]) -> Iterator[Html]:
    if coverage:
        headings = ("Method", "Covered", "First that is missing", "Why")
        rows = [(one.method, str(one), format_sizes(one.missing) or "–", one.reason or "–") for one in coverage]
        yield table("Requested sizes that are covered", headings, rows)


def _input(spec: InputSpec) -> Sequence[object]:
    fixed = [
        f"dim {dim}: {_REASONS[reason]}" for dim, reason in sorted(spec.fixed.items(), key=lambda one: int(one[0]))
    ]
    datatypes = " or ".join(spec.accepted_datatypes)
    return code(spec.name), datatypes, _shape(spec.shape), _shape(spec.example), lines(fixed), _values(spec)


def _output(spec: OutputSpec) -> Sequence[object]:
    return code(spec.name), spec.datatype_text, _shape(spec.shape_in_words)


def _shape(shape: SymbolicShape) -> Html:
    return code(format_shape(shape)) if shape else Html("scalar")


def _values(spec: InputSpec) -> str:
    if spec.values is None:
        return "any"
    low = "any" if spec.values.low is None else str(spec.values.low)
    high = "any" if spec.values.high is None else str(spec.values.high)
    return f"{low} to {high} ({spec.values.basis})"


def _regions(name: str, method: MethodContract, *, is_open: bool) -> Html:
    regions, others = list_regions(method.regions)
    if not regions:
        only = "is known to be right at" if is_open else "accepts"
        return element("p", f"{name} {only} the sizes of its example, and no others.")
    rows = [(str(region), _BASIS[region.basis]) for region in regions]
    if others:
        rows.append((others, "see the contract's regions"))
    if method.memory is not None:
        rows.append(
            (f"and beyond: {describe_beyond(method.regions)}", round_numbers(f"proven; a call needs {method.memory}"))
        )
    listed = table(f"Sizes that {name} accepts", ("Sizes", "How that is known"), rows)
    return details(f"Sizes that {name} accepts together, and what the words mean", listed)


def _called(method: MethodContract) -> Iterator[Html]:
    """Say which sizes do not rest on the process that traced, if there are others than the example's."""
    if not any(region.spans and region.basis != "observed" for region in method.regions):
        return
    called, which = "", "these"
    if method.called:
        sizes = "; ".join(map(format_sizes, method.called))
        called, which = f"The service itself called both at {sizes}, each in a process of its own. ", "other"
    yield element(
        "p",
        f"{called}That {which} sizes are right was found by the process that traced, which ran the submitted code: do "
        "not rely on it where you do not trust who submitted that.",
        class_="note",
    )


def _batch(method: MethodContract) -> Iterator[Html]:
    if method.batch is not None:
        said = f"Rows along {method.batch.symbol} do not see one another, up to {method.batch.up_to} of them."
        yield element("p", f"{said} So the process that traced has found. Requests may be answered together.")


def _key_orders(method: MethodContract) -> Iterator[Html]:
    rows = [(code(path), code(", ".join(keys))) for path, keys in method.key_orders.items()]
    if rows:
        yield table("Dicts whose keys must come in a fixed order", ("Dict", "Keys in their order"), rows)


def _devices(method: MethodContract) -> Iterator[Html]:
    if method.devices:
        rows = [(code(one.operator), code(one.device), code(one.place) if one.place else "–") for one in method.devices]
        headings = ("Operator", "Device", "Line")
        yield table("Operators whose results are always on one device", headings, rows)
        yield element("p", f"On another device, the artifact may fail. To mend it, {FOLLOW_INPUTS}.", class_="note")


def _baked_arguments(arguments: Sequence[Argument]) -> Iterator[Html]:
    kept = [found for argument in arguments for found in _values_in(argument.name, argument.structure)]
    if kept:
        rows = ((code(path), code(value), how) for path, value, how in kept)
        yield table("Values that must be sent as they were, or left out", ("Argument", "Value", "Why"), rows)


def _values_in(path: str, structure: Structure) -> Iterator[tuple[str, str, str]]:
    match structure:
        case BakedLeaf():
            yield path, _json(structure.baked), "the trace baked it in"
        case FixedLeaf():
            yield path, _json(structure.fixed), "no other value was tried"
    for key, item in items_of(structure):
        yield from _values_in(f"{path}.{key}", item)


def contract_note(artifact: Artifact) -> str:
    """Return what being accepted means in the contract of this artifact."""
    if artifact.check.verdict is Verdict.REJECTED:
        return _TAKEN_REJECTED
    return _TAKEN_OPEN if artifact.contract.open else _TAKEN


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
