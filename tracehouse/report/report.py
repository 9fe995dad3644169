"""The report of an artifact: one page that a person can attach to a pull request, and that loads nothing else.

Any text in it may come from submitted code, so `markup` escapes all of it.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import count

import orjson

from tracehouse.artifact.manifest import Artifact
from tracehouse.artifact.statement import Statement
from tracehouse.contract.contract import WITHOUT_FAST_PATHS, Contract, MethodContract
from tracehouse.contract.devices import FOLLOW_INPUTS
from tracehouse.contract.dims import format_sizes
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import describe_beyond, list_regions
from tracehouse.contract.size_coverage import SizeCoverage
from tracehouse.contract.structure import Argument, BakedLeaf, FixedLeaf, Structure, items_of
from tracehouse.differential.comparison import Outcome
from tracehouse.findings.check_memory import CheckMemory
from tracehouse.findings.comparison import Comparison, inputs_sentence, outcome_lines
from tracehouse.findings.kinds import SAID_FIRST
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.findings.verdict_sentence import verdict_sentence
from tracehouse.report import contract_picture, histogram, report_source
from tracehouse.report.cause_cards import cards_of, counterexample_files, render_cards
from tracehouse.report.causes import depending_rows
from tracehouse.report.markup import Html, code, details, element, facts, join, prose, section, table, text
from tracehouse.report.rounding import round_numbers

STYLE = files("tracehouse.report").joinpath("report.css").read_text("utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# What a browser lets the page do, also if the page is opened from a disk.
_PAGE_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"
POLICY = f"{_PAGE_POLICY}; frame-ancestors 'none'; sandbox allow-downloads"

_NOT_KNOWN = (
    "It is right within its contract. On other inputs that were asked for, or that the eager model accepts, it is "
    "wrong or not known to be right."
)
_VERDICTS = {
    Verdict.VERIFIED: "It agreed with the eager model on every input that was tried on both. Its contract says for "
    "which inputs that is known; all others are refused.",
    Verdict.SELF_CONSISTENT: "There is no eager model to compare it with. It agreed with itself, in another process, "
    "on every input that was tried. Whether it is right for the model that it was made from is not known.",
    Verdict.RESTRICTED: f"{_NOT_KNOWN} Those are refused, so that no wrong answer leaves the service.",
    Verdict.REJECTED: "It answers wrongly in a way that no boundary on its inputs excludes. Do not serve it.",
}
_OPEN_VERDICTS = _VERDICTS | {
    Verdict.VERIFIED: "It agreed with the eager model on every input that was tried on both. Its contract says for "
    "which inputs that is known, and is open: sizes that were never tried are answered as well, with a warning.",
    Verdict.RESTRICTED: f"{_NOT_KNOWN} Sizes that are known to be wrong are refused. The contract is open: sizes that "
    "were never tried are answered, with a warning.",
}
_TAKEN = "What the artifact accepts. Anything else is refused, and never answered."
_TAKEN_OPEN = "What is known to be right. Sizes that were never tried are answered too, with a warning."
_RANDOM_ANSWERS = (
    "Random numbers are drawn: the same inputs get another answer each time, and one seed gives one answer."
)
_TAKEN_REJECTED = "What the artifact accepts. It answers wrongly on some of these inputs too, as the findings say."
_ROWS_DEPEND = "Rows of a batch influence one another:"
_LINKS = {
    "/archive": "Archive for torch.jit.load (.pt)",
    "/graph.svg": "Graph (.svg)",
    "": "Contract and check (.json)",
}
_LINKS_NOTE = "from the service that has the artifact; if it asks for keys, send yours"
SIGNS = {Verdict.VERIFIED: "✓", Verdict.SELF_CONSISTENT: "=", Verdict.RESTRICTED: "!", Verdict.REJECTED: "✗"}
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
_MODES: dict[bool | str, str] = {True: "train", False: "eval", "as-is": "as the source leaves it"}


@dataclass(frozen=True)
class ReportPage:
    """What the page of a trace check shows.

    `about` has rows of a name and a value, and `sources` the texts of the files that findings name, by their paths.
    `further` has the sections that come last. `digest` is the artifact's, if a service has it: the page then leads to
    the routes of the service.
    """

    title: str
    verdict_note: str
    about: Sequence[tuple[str, object]]
    contract: Contract
    contract_note: str
    check: TraceCheck
    counterexamples: Sequence[Html]
    sources: Mapping[str, str]
    further: Sequence[Html] = ()
    digest: str | None = None


def page(
    artifact: Artifact,
    digest: str,
    sources: Mapping[str, str],
    signed: Statement | None = None,
    *,
    local_name: str | None = None,
) -> str:
    """Return the whole page of an artifact as HTML.

    `sources` has the texts of the submitted files that findings name, by their paths. `signed` is what the service
    signed about the archive; None if the artifact is not signed. `local_name` is what a model is called that no service
    has: the page then names no routes and no signature.
    """
    is_served = local_name is None
    return render_page(
        ReportPage(
            title=f"Trace check of {local_name or artifact.entrypoint or 'an uploaded archive'}",
            verdict_note=verdict_note(artifact),
            about=[*_about(artifact, digest), *([("Signature", _signature(signed))] if is_served else [])],
            contract=artifact.contract,
            contract_note=_contract_note(artifact),
            check=artifact.check,
            counterexamples=[*_counterexamples(artifact, digest if is_served else None)],
            sources=sources,
            further=[*_attempts(artifact)],
            digest=digest if is_served else None,
        )
    )


def verdict_note(artifact: Artifact) -> str:
    """Return what the artifact's verdict means for whoever uses it."""
    return (_OPEN_VERDICTS if artifact.contract.open else _VERDICTS)[artifact.check.verdict]


def render_page(page: ReportPage) -> str:
    """Return the whole page as HTML, which loads nothing else."""
    check = page.check
    cards = cards_of(check.findings)
    numbered = [(card.number, finding) for card in cards for finding in card.findings]
    contract = section("Contract", *_contract(page.contract, page.contract_note, check.coverage), name="contract")
    findings = section("Findings", *render_cards(cards, page.digest), name="findings")
    sections = [
        _head(page),
        # What to do about the model comes first, if there is anything to do.
        *([contract, findings] if check.verdict is Verdict.VERIFIED else [findings]),
        *page.counterexamples,
        *([] if check.verdict is Verdict.VERIFIED else [contract]),
        report_source.render_sources(page.sources, numbered),
        section("What was compared", *_comparisons_section(check), name="compared"),
        section("How it was checked", *_layers(check), *_memory(check.memory), name="layers"),
        section("What torch alone would have said", *_torch(check.torch), name="torch"),
        *page.further,
        section("About the artifact" if page.digest else "About the trace", facts(page.about), name="about"),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{text(_PAGE_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(page.title)}: {check.verdict.value}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{join(sections, chr(10))}\n</main>\n</body>\n</html>\n"
    )


def _head(page: ReportPage) -> Html:
    verdict = page.check.verdict
    sentence = verdict_sentence(page.check, page.contract)
    stamp = element("strong", f"{SIGNS[verdict]} {sentence}", class_=f"verdict {verdict.value}")
    first = [element("p", prose(one.detail)) for one in page.check.findings if one.kind in SAID_FIRST]
    verdict_line = element("p", stamp, " ", page.verdict_note)
    links = [] if page.digest is None else [_links(page.digest)]
    rows = render_depending_rows(page.check)
    return element("header", element("h1", page.title), *first, verdict_line, rows, *links)


def render_depending_rows(check: TraceCheck) -> Html:
    """Return the warning that rows of a batch influence one another, if that was found."""
    found = depending_rows(check.findings)
    said = [element("p", element("strong", _ROWS_DEPEND), " ", prose(round_numbers(one.detail))) for one in found]
    return element("div", *said, class_="rows-depend") if said else Html("")


def _links(digest: str) -> Html:
    shown = [element("a", title, href=f"/artifacts/{digest}{path}") for path, title in _LINKS.items()]
    return element("p", join(shown, " · "), " ", element("span", _LINKS_NOTE, class_="note"), class_="links")


def _about(artifact: Artifact, digest: str) -> list[tuple[str, object]]:
    versions = artifact.versions
    about: list[tuple[str, object]] = [
        ("Artifact", code(digest)),
        ("Archive", code(artifact.archive.digest)),
        ("Made with", f"torch {versions.torch}, Python {versions.python}, Tracehouse {versions.tracehouse}"),
        ("Device", artifact.device),
        ("Form", f"{artifact.form}; served {_served_form(artifact)}"),
        ("Mode of the model", _MODES[artifact.training]),
    ]
    if artifact.precision:
        about.append(("Cast to", artifact.precision))
    if artifact.environment:
        about.append(("Environment", f"{artifact.environment.name}, {artifact.environment.digest}"))
    if artifact.bucket:
        about.append(("Bucket", format_sizes(artifact.bucket)))
    return about


def _signature(signed: Statement | None) -> str:
    if signed is None:
        return "none: nothing shows that this service made the archive"
    said = signed.predicate
    return (
        f"made with the key {said.key_id} at {said.signed_at.isoformat()}: the service that has this key made this "
        "archive and came to this verdict and contract then. It says nothing beyond that."
    )


def _served_form(artifact: Artifact) -> str:
    return "as it is" if artifact.served_form is None else f"as torch.jit.{artifact.served_form} makes it"


_INPUT_HEADINGS = ("Input", "Datatype", "Shape", "Traced on", "Why sizes are fixed", "Values")
_OUTPUT_HEADINGS = ("Output", "Datatype", "Shape")


def render_contract(artifact: Artifact) -> Html:
    """Return the artifact's contract as tables."""
    return join(_contract(artifact.contract, _contract_note(artifact), artifact.check.coverage))


def render_layers(check: TraceCheck) -> Html:
    """Return the layers of the check as a table: what each did, and what it left out."""
    return join([*_layers(check), *_memory(check.memory)])


def _contract(contract: Contract, note: str, coverage: Sequence[SizeCoverage]) -> Iterator[Html]:
    yield element("p", note, class_="note")
    if contract.without_fast_paths:
        yield element("p", f"The artifact was compared with the eager model {WITHOUT_FAST_PATHS}.")
    yield from _coverage(coverage)
    numbers = count(1)  # of the pictures
    for name, method in contract.methods.items():
        yield element("h3", "Method ", code(name))
        yield table(f"Inputs of {name}", _INPUT_HEADINGS, map(_input, method.inputs))
        yield contract_picture.picture(name, method, next(numbers), is_open=contract.open)
        yield _regions(name, method)
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
    yield _regions(f"{name}, in these ranks,", method)
    yield from _called(method)
    yield from _batch(method)
    yield table(f"Outputs of {name} in these ranks", _OUTPUT_HEADINGS, map(_output, method.outputs))


def _coverage(coverage: Sequence[SizeCoverage]) -> Iterator[Html]:
    if coverage:
        headings = ("Method", "Covered", "First that is missing", "Why")
        rows = [(one.method, str(one), format_sizes(one.missing) or "–", one.reason or "–") for one in coverage]
        yield table("Requested sizes that are covered", headings, rows)


def _contract_note(artifact: Artifact) -> str:
    if artifact.check.verdict is Verdict.REJECTED:
        return _TAKEN_REJECTED
    return _TAKEN_OPEN if artifact.contract.open else _TAKEN


def _input(spec: InputSpec) -> Sequence[object]:
    fixed = [
        f"dim {dim}: {_REASONS[reason]}" for dim, reason in sorted(spec.fixed.items(), key=lambda one: int(one[0]))
    ]
    datatypes = " or ".join(spec.accepted_datatypes)
    return code(spec.name), datatypes, _shape(spec.shape), _shape(spec.example), _lines(fixed), _values(spec)


def _output(spec: OutputSpec) -> Sequence[object]:
    shape = ["any" if dim == -1 else dim for dim in spec.shape]
    return code(spec.name), spec.datatype_text, _shape(shape)


def _shape(dims: Sequence[object]) -> Html:
    return code(f"[{', '.join(map(str, dims))}]") if dims else Html("scalar")


def _values(spec: InputSpec) -> str:
    if spec.values is None:
        return "any"
    low = "any" if spec.values.low is None else str(spec.values.low)
    high = "any" if spec.values.high is None else str(spec.values.high)
    return f"{low} to {high} ({spec.values.basis})"


def _lines(lines: Sequence[object]) -> Html:
    return join(map(text, lines), "<br>") if lines else Html("–")


def _regions(name: str, method: MethodContract) -> Html:
    regions, others = list_regions(method.regions)
    if not regions:
        return element("p", f"{name} accepts the sizes of its example, and no others.")
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
    if method.called:
        sizes = "; ".join(map(format_sizes, method.called))
        yield element(
            "p",
            f"The service itself called both at {sizes}, each in a process of its own. That other sizes are right was "
            "found by the process that traced, which ran the submitted code: do not rely on it where you do not trust "
            "who submitted that.",
            class_="note",
        )


def _batch(method: MethodContract) -> Iterator[Html]:
    if method.batch is not None:
        said = f"Rows along {method.batch.symbol} do not see one another, up to {method.batch.up_to} of them."
        yield element("p", f"{said} Requests may be answered together.")


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


def _counterexamples(artifact: Artifact, digest: str | None) -> Iterator[Html]:
    """Yield the section of the counterexamples, with their files if a service has these under the digest."""
    if not artifact.counterexamples:
        return
    rows = [
        (
            number,
            f"{one.method}, {one.case}",
            _lines([f"{spec.name} {spec.datatype.value} {list(spec.shape)}" for spec in one.inputs]),
            round_numbers(f"{one.output}: {one.difference}"),
            *([] if digest is None else [counterexample_files(number, digest)]),
        )
        for number, one in enumerate(artifact.counterexamples)
    ]
    headings = ("Number", "Call", "Inputs", "What differs", *([] if digest is None else ["Files"]))
    shown = table("The smallest inputs found that the artifact answers wrongly", headings, rows)
    yield section("Counterexamples", shown, name="counterexamples")


def _comparisons_section(check: TraceCheck) -> Iterator[Html]:
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
    rows = ((one.name, one.method, f"{one.seconds:.2f}", one.summary, _lines(one.left_out)) for one in check.layers)
    yield table("Layers of the check", ("Layer", "Method", "Seconds", "What it did", "What it left out"), rows)


def _memory(memory: CheckMemory | None) -> Iterator[Html]:
    """Yield what was left out because the whole check did not fit into memory, if anything was."""
    if memory is not None and memory.left_out:
        yield element("p", "The check had too little memory for all of it, and left out:")
        yield _lines(memory.left_out)


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


def _attempts(artifact: Artifact) -> Iterator[Html]:
    if not artifact.attempts:
        return
    rows = (
        (one.way, one.verdict.value if one.verdict else "no artifact", "yes" if one.kept else "no", one.detail or "–")
        for one in artifact.attempts
    )
    headings = ("Way", "Verdict", "Kept as this artifact", "Why")
    yield section("What was tried", table("Ways to make the artifact", headings, rows), name="tried")


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
