"""The source as the studio shows it: the submitted files, in colours, with the lines that causes name marked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from tracehouse.report.causes import Cause
from tracehouse.report.markup import Html, reveal, text
from tracehouse.report.report_source import shown_numbers
from tracehouse.source_lines import split_source

# A larger file, or one with longer lines, is shown without colours: a person does not read it, and a lexer is made of
# regular expressions. All numbers here are chosen.
_COLOURED_MAX_CHARACTERS = 100_000
_COLOURED_LINE_MAX = 250
_FILES_MAX = 50
_AROUND = 1


@dataclass(frozen=True, slots=True)
class Line:
    """A line in HTML, and the numbers of the causes that it has, from 1. A line left out has the number 0."""

    number: int
    html: Html
    causes: tuple[int, ...] = ()
    weight: str = ""


@dataclass(frozen=True, slots=True)
class File:
    path: str
    lines: list[Line]

    @property
    def is_marked(self) -> bool:
        return any(line.causes for line in self.lines)


def colour(source: str) -> list[Html]:
    """Return each line in HTML with the classes of Pygments."""
    lines = split_lines(source)
    plain = reveal("\n".join(lines))
    if len(plain) > _COLOURED_MAX_CHARACTERS or any(len(line) > _COLOURED_LINE_MAX for line in lines):
        return [text(line) for line in lines]
    coloured = highlight(f"{plain}\n", PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return [Html(line) for line in coloured.removesuffix("\n").split("\n")]


def split_lines(source: str) -> list[str]:
    """Return the lines as Python numbers them."""
    return split_source(source) or [""]


def marked_files(sources: Mapping[str, str], causes: Sequence[Cause]) -> list[File]:
    """Return the files, those with marked lines first. Of a long file, only what is around these lines is shown."""
    files = [_marked_file(path, source, causes) for path, source in sources.items()]
    return sorted(files, key=lambda file: not file.is_marked)[:_FILES_MAX]


def excerpt(
    sources: Mapping[str, str], file: str | None, number: int | None, source: str | None, weight: str = ""
) -> list[Line]:
    """Return a line and its neighbours; the line alone, with its text `source`, if its file is not at hand."""
    if number is None or file is None:
        return []
    lines = colour(sources[file]) if file in sources else []
    if not 0 < number <= len(lines):
        return [Line(number, colour(source)[0], (1,), weight)] if source else []
    near = range(max(1, number - _AROUND), min(len(lines), number + _AROUND) + 1)
    return [Line(each, lines[each - 1], (1,) if each == number else (), weight) for each in near]


def whole_file(path: str, source: str, named: Iterable[int]) -> File:
    """Return a file for the view beside the graph; `named` are the lines that made nodes."""
    lines = colour(source)
    named = sorted(line for line in named if 0 < line <= len(lines))
    return File(path, [_line(number, lines) for number in shown_numbers(len(lines), named)])


def known_lines(path: str, lines: Mapping[int, str]) -> File:
    """Return what is known of a file that is not at hand: the lines that made nodes."""
    shown: list[Line] = []
    last = 0
    for number, source in sorted(lines.items()):
        if number > last + 1:
            shown.append(Line(0, Html("")))
        shown.append(Line(number, colour(source)[0]))
        last = number
    return File(path, shown)


def _line(number: int, lines: Sequence[Html]) -> Line:
    return Line(number, lines[number - 1] if number else Html(""))


def _marked_file(path: str, source: str, causes: Sequence[Cause]) -> File:
    lines = colour(source)
    marked: dict[int, list[int]] = {}
    for number, cause in enumerate(causes, start=1):
        if cause.lead.file == path and cause.lead.line is not None and 0 < cause.lead.line <= len(lines):
            marked.setdefault(cause.lead.line, []).append(number)
    shown = []
    for number in shown_numbers(len(lines), sorted(marked)):
        line = _line(number, lines)
        if found := marked.get(number):
            line = Line(number, line.html, tuple(found), causes[found[0] - 1].weight)
        shown.append(line)
    return File(path, shown)
