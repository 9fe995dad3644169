"""The source in a report, with line numbers. Lines that findings name are marked, with the findings beside them."""

from collections.abc import Iterator, Mapping, Sequence

from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import speaks_against
from tracehouse.report.markup import Html, element, join, section, text
from tracehouse.report.rounding import round_numbers

# Of a file with more lines, only the lines that findings name are shown, each with _AROUND lines before and after it.
# Both numbers are chosen.
_WHOLE_LINES_MAX = 400
_AROUND = 12
MARKS = {"harmful": "✗", "unknown": "?", "other": "•", "harmless": "✓"}
_SAID_MAX_CHARACTERS = 300


# A finding with the number of its card in the report.
Numbered = tuple[int, Finding]


def render_sources(sources: Mapping[str, str], findings: Sequence[Numbered]) -> Html:
    """Return the section with all source files. Marked lines have the numbers of the cards, each finding its card's."""
    if not sources:
        return Html("")
    files = join(_render_file(path, whole, findings) for path, whole in sources.items())
    legend = element("p", "Marked lines: ✗ harmful, ? unknown, ✓ harmless, • another finding.", class_="note")
    return section("Source", legend, files, name="source")


def weight_of(finding: Finding) -> str:
    """Return the group in which the report lists a finding: its effect or, if it has none, `harmful` or `other`."""
    if finding.effect is not None:
        return finding.effect
    return "harmful" if speaks_against(finding.kind) else "other"


def _render_file(path: str, whole: str, findings: Sequence[Numbered]) -> Html:
    lines = whole.removesuffix("\n").split("\n")
    marked: dict[int, list[Numbered]] = {}
    for number, finding in findings:
        if finding.file == path and finding.line is not None and 0 < finding.line <= len(lines):
            marked.setdefault(finding.line, []).append((number, finding))
    rows = join(
        _render_line(number, lines[number - 1], marked.get(number, [])) if number else _render_gap()
        for number in shown_numbers(len(lines), sorted(marked))
    )
    return Html(
        f'<div class="scroll"><table class="source"><caption>{text(path)}</caption>'
        '<thead><tr><th scope="col">Line</th><th scope="col">Mark</th>'
        '<th scope="col">Text and findings</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def shown_numbers(count: int, marked: Sequence[int]) -> Iterator[int]:
    """Yield the numbers of the lines to show, from 1 on; a 0 stands for lines that are left out."""
    if count <= _WHOLE_LINES_MAX:
        yield from range(1, count + 1)
        return
    last = 0
    for number in sorted({near for line in marked for near in range(line - _AROUND, line + _AROUND + 1)}):
        if 0 < number <= count:
            if number > last + 1:
                yield 0
            yield number
            last = number
    if last < count:
        yield 0


def _render_gap() -> Html:
    return Html('<tr><th scope="row">⋯</th><td></td><td class="note">lines left out</td></tr>')


def _render_line(number: int, line: str, found: Sequence[Numbered]) -> Html:
    worst = next((group for group in MARKS if any(weight_of(one) == group for _, one in found)), None)
    mark = MARKS[worst] if worst else ""
    said = join(_render_finding(place, one) for place, one in found)
    kind = f' class="marked {worst}"' if worst else ""
    return Html(
        f'<tr{kind}><th scope="row">{number}</th><td class="mark">{mark}</td>'
        f"<td><pre>{text(line) or ' '}</pre>{said}</td></tr>"
    )


def _render_finding(place: int, finding: Finding) -> Html:
    is_harmless = finding.effect == "harmless" and finding.reason
    detail = round_numbers(f"harmless: {finding.reason}" if is_harmless else finding.detail)
    short = detail if len(detail) <= _SAID_MAX_CHARACTERS else detail[:_SAID_MAX_CHARACTERS] + "…"
    return element("p", element("a", f"{finding.kind} ({place})", href=f"#finding-{place}"), ": ", short, class_="said")
