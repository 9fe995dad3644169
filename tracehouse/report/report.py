"""The report of an artifact: one page that a person can attach to a pull request, and that loads nothing else.

Any text in it may come from submitted code, so `markup` escapes all of it.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from tracehouse.artifact.manifest import Artifact
from tracehouse.artifact.statement import Statement
from tracehouse.contract.contract import Contract
from tracehouse.contract.dims import format_sizes
from tracehouse.findings.kinds import SAID_FIRST
from tracehouse.findings.trace_check import TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.findings.verdict_sentence import verdict_sentence
from tracehouse.report import report_source
from tracehouse.report.cause_cards import cards_of, counterexample_files, render_cards
from tracehouse.report.check_section import render_comparisons, render_depending_rows, render_layers, render_torch
from tracehouse.report.contract_section import contract_note, render_tables
from tracehouse.report.markup import Html, code, element, facts, join, lines, prose, section, table, text
from tracehouse.report.rounding import round_numbers
from tracehouse.report.verdict_note import SIGNS, verdict_note

STYLE = files("tracehouse.report").joinpath("report.css").read_text("utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# What a browser lets the page do, also if the page is opened from a disk.
_PAGE_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"
POLICY = f"{_PAGE_POLICY}; frame-ancestors 'none'; sandbox allow-downloads"

_LINKS = {
    "/archive": "Archive for torch.jit.load (.pt)",
    "/graph.svg": "Graph (.svg)",
    "": "Contract and check (.json)",
}
_LINKS_NOTE = "from the service that has the artifact; if it asks for keys, send yours"
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
            contract_note=contract_note(artifact),
            check=artifact.check,
            counterexamples=[*_counterexamples(artifact, digest if is_served else None)],
            sources=sources,
            further=[*_attempts(artifact)],
            digest=digest if is_served else None,
        )
    )


def render_page(page: ReportPage) -> str:
    """Return the whole page as HTML, which loads nothing else."""
    check = page.check
    cards = cards_of(check.findings)
    numbered = [(card.number, finding) for card in cards for finding in card.findings]
    contract = section("Contract", render_tables(page.contract, page.contract_note, check.coverage), name="contract")
    findings = section("Findings", *render_cards(cards, page.digest), name="findings")
    sections = [
        _head(page),
        # What to do about the model comes first, if there is anything to do.
        *([contract, findings] if check.verdict is Verdict.VERIFIED else [findings]),
        *page.counterexamples,
        *([] if check.verdict is Verdict.VERIFIED else [contract]),
        report_source.render_sources(page.sources, numbered),
        section("What was compared", render_comparisons(check), name="compared"),
        section("How it was checked", render_layers(check), name="layers"),
        section("What torch alone would have said", render_torch(check.torch), name="torch"),
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


def _counterexamples(artifact: Artifact, digest: str | None) -> Iterator[Html]:
    """Yield the section of the counterexamples, with their files if a service has these under the digest."""
    if not artifact.counterexamples:
        return
    rows = [
        (
            number,
            f"{one.method}, {one.case}",
            lines([f"{spec.name} {spec.datatype.value} {list(spec.shape)}" for spec in one.inputs]),
            round_numbers(f"{one.output}: {one.difference}"),
            *([] if digest is None else [counterexample_files(number, digest)]),
        )
        for number, one in enumerate(artifact.counterexamples)
    ]
    headings = ("Number", "Call", "Inputs", "What differs", *([] if digest is None else ["Files"]))
    shown = table("The smallest inputs found that the artifact answers wrongly", headings, rows)
    yield section("Counterexamples", shown, name="counterexamples")


def _attempts(artifact: Artifact) -> Iterator[Html]:
    if not artifact.attempts:
        return
    rows = (
        (one.way, one.verdict.value if one.verdict else "no artifact", "yes" if one.kept else "no", one.detail or "–")
        for one in artifact.attempts
    )
    headings = ("Way", "Verdict", "Kept as this artifact", "Why")
    yield section("What was tried", table("Ways to make the artifact", headings, rows), name="tried")
