"""A trace as a notebook shows it: verdict, cause and remedy first, the lines at fault in their source, the code folded.

Any text in it may come from submitted code, so `markup` escapes all of it. A notebook may drop style sheets, so the
style stands with the elements.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracehouse.client.errors import problem_lines
from tracehouse.client.results import Result
from tracehouse.client.submission import Submission
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind, entry_of
from tracehouse.findings.verdict import Verdict
from tracehouse.report.contract_lines import contract_lines
from tracehouse.report.markup import Html, code, details, element, join, prose, text
from tracehouse.report.report_source import weight_of
from tracehouse.source_lines import split_source

_AROUND = 2  # lines before and after one that a finding names
_CARDS_MAX = 5
_COLOURS = {
    Verdict.VERIFIED: "#1a7f5a",
    Verdict.SELF_CONSISTENT: "#0a51a8",
    Verdict.RESTRICTED: "#a86800",
    Verdict.REJECTED: "#b42318",
}
_MONO = "font-family:ui-monospace,monospace;font-size:.9em;white-space:pre;overflow-x:auto;margin:.3em 0"
_MARKED = "display:block;background:#fdeceb;color:#1b1f24"
_CARD = "border-left:.3em solid #b42318;padding:.2em .8em;margin:.6em 0"


def page_of(
    request: Mapping[str, Any], submission: Submission, result: Result | None, printed_code: str | None, url: str
) -> str:
    """Return what a notebook shows of a trace. `result` is None until the trace has succeeded."""
    inside = _of_result(submission, result, printed_code, url) if result is not None else _of_request(request)
    return element("div", *inside, *_of_notes(submission), style="max-width:60em;overflow-wrap:anywhere")


def _of_request(request: Mapping[str, Any]) -> Iterator[Html]:
    problem = request.get("problem")
    state = request["state"]
    yield _headline(f"The trace {'failed' if problem else f'is {state}'}", "#b42318" if problem else "#57606a")
    if problem:
        yield element("pre", "\n".join(problem_lines(problem)), style=f"{_MONO};white-space:pre-wrap")
    elif state not in ("succeeded", "cancelled"):
        yield element("p", f"stage {request['stage']}, {float(request['progress']):.0%}")


def _of_result(submission: Submission, result: Result, printed_code: str | None, url: str) -> Iterator[Html]:
    if result.verdict is None:
        yield _headline("The model ran; nothing was traced", "#57606a")
        return
    yield _headline(result.sentence, _COLOURS[result.verdict])
    served = result.model or "not registered: nothing answers"
    link = element("a", "report", href=f"{url}/artifacts/{result.digest}/report", target="_blank")
    yield element("p", "Model ", code(served), " · ", link)
    yield from _of_findings(result.findings, submission.texts)
    for method, contract in result.contract.methods.items():
        yield element("p", element("b", f"Contract of {method}"), style="margin-bottom:0")
        yield element("pre", "\n".join(contract_lines(contract)), style=f"{_MONO};white-space:pre-wrap")
    if printed_code:
        yield details("Traced code", element("pre", printed_code, style=_MONO))


def _of_findings(findings: Sequence[Finding], texts: Mapping[str, str]) -> Iterator[Html]:
    """Yield a card for each place, with the cause first and what is seen of it after that."""
    cards: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        # A warning of torch says less than what was found out about its line.
        if weight_of(finding) != "harmless" and finding.kind != Kind.TRACER_WARNING:
            place = (finding.file, finding.line) if finding.line else number
            cards.setdefault(place, []).append(finding)
    shown = [*cards.values()][:_CARDS_MAX]
    for card in shown:
        yield _card(card, texts)
    if left := len(findings) - sum(map(len, shown)):
        yield element("p", f"{left} more {'finding' if left == 1 else 'findings'}: the report has all of them")


def _card(findings: Sequence[Finding], texts: Mapping[str, str]) -> Html:
    finding, *seen = findings
    entry = entry_of(finding.kind)
    title = entry.title if entry is not None else finding.kind
    place = f"{finding.file}:{finding.line}" if finding.file and finding.line else ""
    inside: list[Html] = [element("p", element("b", title), " ", code(place) if place else "", style="margin:0")]
    if finding.line:
        inside.append(_lines(finding, texts.get(finding.file or "")))
    inside.append(element("p", finding.detail, style="margin:.2em 0"))
    if finding.remedy:
        inside.append(element("p", element("b", "What to do: "), prose(finding.remedy), style="margin:.2em 0"))
    inside += [element("p", f"Seen: {one.detail}", style="margin:.2em 0") for one in seen]
    return element("div", *inside, style=_CARD)


def _lines(finding: Finding, whole: str | None) -> Html:
    """Return the line that a finding names, among those around it if the file was sent."""
    assert finding.line is not None
    if whole is None:
        return element("pre", finding.source or "", style=_MONO)
    lines = split_source(whole)
    first = max(finding.line - _AROUND, 1)
    rows = []
    for number, line in enumerate(lines[first - 1 : finding.line + _AROUND], start=first):
        row = f"{number:>5}  {line}"
        rows.append(element("span", row, style=_MARKED) if number == finding.line else text(f"{row}\n"))
    return element("pre", join(rows), style=_MONO)


def _of_notes(submission: Submission) -> Iterator[Html]:
    if submission.notes:
        items = join(element("li", note) for note in submission.notes)
        yield element("p", element("b", "Left behind or replaced"), style="margin-bottom:0")
        yield element("ul", items)
    if submission.packages:
        yield element("p", f"The service needs {', '.join(submission.packages)}.")


def _headline(words: str, colour: str) -> Html:
    return element("p", element("b", words), style=f"font-size:1.15em;color:{colour};margin:.3em 0")
