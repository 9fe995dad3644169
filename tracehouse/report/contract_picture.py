"""The contract as a picture: which sizes and values a method accepts, and how that is known. A table says the same.

The picture needs no style sheet: its ink is the text's own colour, and its fills stand out on white and on black. How a
size is known is told by pattern and by word, never by colour alone.
"""

from collections.abc import Iterator, Sequence
from math import log10

from tracehouse.contract.contract import MethodContract
from tracehouse.report.free_sizes import Accepted, FreeSize, free_sizes, needs_combinations
from tracehouse.report.markup import Html, code, element, join, table, text

_ROWS_MAX = 12  # chosen: the table has all of them
_MARKS_MAX = 24  # calls and wrong sizes that are drawn for one size; chosen
_STEPS_MAX = 2  # chosen, as many as fit
_NAME_MAX = 30  # characters: what there is room for
_DIGIT_WIDTH = 6.4  # pixels of one character of the numbers, at most
# Pixels. At a width of 400, the text is as large as the page's small text.
_WIDTH, _LEFT, _RIGHT, _BAR, _ROW, _TOP, _LEGEND = 360, 12, 348, 16, 80, 30, 22
_LEAST = 5  # pixels: what one size alone is wide

_PROVEN, _SAMPLED, _TESTED, _WRONG = "#2a8f66", "#3b7dd8", "#b5770d", "#d1453b"
_COLOURS = {"proven": _PROVEN, "sampled": _SAMPLED, "tested": _TESTED, "observed": "currentColor"}
_LEGENDS = {
    "proven": "proven",
    "beyond": "proven, if memory allows",
    "sampled": "sampled",
    "tested": "tested by calls",
    "observed": "observed: the example only",
}
_HEADINGS = ("Size or values", "Accepted", "How that is known", "Example", "Also known")


def picture(name: str, method: MethodContract, number: int, *, is_open: bool = False) -> Html:
    """Return a figure with the picture and the table; nothing if no size varies and no values are bounded.

    `number` is another one for each picture of a page. An open contract answers sizes that were never tried.
    """
    rows = free_sizes(method)
    if not rows:
        return Html("")
    note = (
        "One size at a time: a size shown here is accepted with some sizes of the others. The combinations are below."
        if needs_combinations(method)
        else None
    )
    beside = table(f"Free sizes and values of {name}", _HEADINGS, [cells for row in rows for cells in _cells(row)])
    caption = element("figcaption", note, class_="note") if note else Html("")
    drawn = draw(name, rows, f"picture-{number}", is_open=is_open)
    return element("figure", drawn, beside, caption, class_="contract-picture")


def draw(name: str, rows: Sequence[FreeSize], prefix: str, *, is_open: bool = False) -> Html:
    """Return the picture as SVG. The ids in it begin with `prefix`."""
    shown = rows[:_ROWS_MAX]
    legend = [*_legend(shown, prefix, len(shown) * _ROW + 8, is_open=is_open)]
    height = len(shown) * _ROW + 14 + len(legend) * _LEGEND
    more = f" {len(rows) - len(shown)} more are in the table." if len(rows) > len(shown) else ""
    described = " ".join(_described(row) for row in shown) + more
    return Html(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" font-size="12" fill="currentColor" aria-labelledby="{prefix}-title {prefix}-desc">'
        f'<title id="{prefix}-title">{text(f"What {name} accepts")}</title>'
        f'<desc id="{prefix}-desc">{text(described)}</desc><defs>{_patterns(prefix)}</defs>'
        f"{join(_draw_row(row, at * _ROW, prefix) for at, row in enumerate(shown))}{join(legend)}</svg>"
    )


def _described(row: FreeSize) -> str:
    """Return what the picture says of a size, as a sentence."""
    example = "" if row.example is None else f"; the example has {row.example:,}"
    together = f"; rows are answered together up to {row.together_up_to:,}" if row.together_up_to is not None else ""
    wrong = f"; wrong at {', '.join(f'{size:,}' for size in row.wrong[:_MARKS_MAX])}" if row.wrong else ""
    return f"{row.name}: {row.words}{example}{together}{wrong}."


def _cells(row: FreeSize) -> Iterator[Sequence[object]]:
    for at, one in enumerate(row.accepted):
        if at:
            yield code(row.name), one.words, one.known, "", ""
            continue
        more = [f"{row.spans_left_out} more spans"] if row.spans_left_out else []
        if row.called:
            more.append(f"called by the service itself: {_list(row.called)}")
        if row.together_up_to is not None:
            more.append(f"batch certificate: up to {row.together_up_to:,} rows are answered together")
        if row.wrong:
            more.append(f"✗ wrong at {_list(row.wrong)}")
        example = "–" if row.example is None else f"{row.example:,}"
        yield code(row.name), one.words, one.known, example, "; ".join(more) or "–"


def _list(sizes: Sequence[int]) -> str:
    listed = ", ".join(f"{size:,}" for size in sizes[:_MARKS_MAX])
    return f"{listed} and {len(sizes) - _MARKS_MAX} more" if len(sizes) > _MARKS_MAX else listed


class _Scale:
    """Where a size or value lies, in pixels. Sizes lie by their logarithms, so that small and large ones are seen."""

    def __init__(self, row: FreeSize) -> None:
        ends = [end for one in row.accepted for end in (one.low, one.high) if end is not None]
        self._is_values = row.is_values
        self._low = min(ends) if row.is_values else 0
        self._high = max([*ends, row.example or 0, *row.wrong, *row.called])

    def at(self, size: int) -> float:
        """Return where the size or value lies.

        Values leave a tenth on both sides for those that are refused; sizes leave it on the right.
        """
        width = _RIGHT - _LEFT
        if self._is_values:
            part = (size - self._low) / (self._high - self._low) if self._high > self._low else 0.5
            return _LEFT + width * (0.1 + 0.8 * part)
        return _LEFT + width * 0.9 * log10(size + 1) / log10(self._high + 2)

    def ends(self, one: Accepted) -> tuple[float, float]:
        low = _LEFT if one.low is None else self.at(one.low)
        high = _RIGHT if one.high is None else self.at(one.high)
        return (low - _LEAST / 2, high + _LEAST / 2) if high - low < _LEAST else (low, high)


def _draw_row(row: FreeSize, top: float, prefix: str) -> Html:
    scale, y = _Scale(row), top + _TOP
    track = Html(
        f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y + _BAR / 2}" y2="{y + _BAR / 2}" stroke="currentColor" '
        'stroke-dasharray="2 3" stroke-opacity="0.75"/>'
    )
    title = row.name if len(row.name) <= _NAME_MAX else row.name[: _NAME_MAX - 1] + "…"
    parts = [Html(f'<text x="{_LEFT}" y="{top + 14}" font-weight="600">{text(title)}</text>'), track]
    steps = sorted({one.step for one in row.accepted if one.step > 1})
    if steps:
        said = text(f"in steps of {' or '.join(f'{step:,}' for step in steps[:_STEPS_MAX])}")
        parts.append(Html(f'<text x="{_RIGHT}" y="{top + 14}" text-anchor="end" font-size="11">{said}</text>'))
    parts += [_bar(one, scale, y, prefix) for one in reversed(row.accepted)]
    if row.together_up_to is not None:
        parts.append(_together(row.together_up_to, scale, y))
    parts += [_circle(scale.at(size), y + _BAR + 4) for size in row.called[:_MARKS_MAX]]
    parts += [_cross(scale.at(size), y + _BAR / 2) for size in row.wrong[:_MARKS_MAX]]
    if row.example is not None:
        at = scale.at(row.example)
        parts.append(Html(f'<path d="M{at - 4:.1f} {y - 8}h8l-4 7z"/>'))
    return join([*parts, *_numbers(row, scale, y + _BAR + 19)])


def _bar(one: Accepted, scale: _Scale, y: float, prefix: str) -> Html:
    left, right = scale.ends(one)
    style = "beyond" if one.needs_memory else one.basis
    fill = {"proven": _PROVEN, "observed": "none"}.get(style, f"url(#{prefix}-{style})")
    dashes = ' stroke-dasharray="5 3"' if one.needs_memory else ""
    said = text(f"{one.words}: {one.known}")
    return Html(
        f'<rect x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="{_BAR}" fill="{fill}" '
        f'stroke="{_COLOURS[one.basis]}" stroke-width="1.5"{dashes}><title>{said}</title></rect>'
    )


def _together(up_to: int, scale: _Scale, y: float) -> Html:
    """Return a bracket above the sizes in which the rows of several requests are answered together."""
    left, right = scale.at(1), max(scale.at(up_to), scale.at(1) + _LEAST)
    return Html(
        f'<path d="M{left:.1f} {y - 1}v-4H{right:.1f}v4" fill="none" stroke="currentColor" stroke-width="1.5">'
        f"<title>{text(f'batch certificate: up to {up_to:,} rows are answered together')}</title></path>"
    )


def _circle(x: float, y: float) -> Html:
    return Html(f'<circle cx="{x:.1f}" cy="{y}" r="2.6" fill="none" stroke="currentColor" stroke-width="1.4"/>')


def _cross(x: float, y: float) -> Html:
    return Html(f'<path d="M{x - 4:.1f} {y - 4}l8 8m0 -8l-8 8" stroke="{_WRONG}" stroke-width="2.2"/>')


def _numbers(row: FreeSize, scale: _Scale, y: float) -> Iterator[Html]:
    """Yield the numbers under a bar: the ends of what is accepted, the example, and others where there is room."""
    ends = [end for one in row.accepted for end in (one.low, one.high) if end is not None]
    ordered = [min(ends), max(ends)] if ends else []
    ordered += [] if row.example is None else [row.example]
    taken: list[tuple[float, float]] = []
    for size in dict.fromkeys([*ordered, *row.wrong[:_MARKS_MAX], *ends]):
        written = f"{size:,}"
        half = len(written) * _DIGIT_WIDTH / 2
        middle = min(max(scale.at(size), half), _WIDTH - half)
        if all(middle + half + 3 < low or high + 3 < middle - half for low, high in taken):
            taken.append((middle - half, middle + half))
            yield Html(f'<text x="{middle:.1f}" y="{y}" font-size="11" text-anchor="middle">{written}</text>')


def _legend(rows: Sequence[FreeSize], prefix: str, top: float, *, is_open: bool) -> Iterator[Html]:
    """Yield a line for each pattern and mark that is drawn."""
    drawn = {"beyond" if one.needs_memory else one.basis for row in rows for one in row.accepted}
    x, width = _LEFT, 26
    samples: list[tuple[str, str]] = []
    for style, words in _LEGENDS.items():
        if style in drawn:
            fill = {"proven": _PROVEN, "observed": "none"}.get(style, f"url(#{prefix}-{style})")
            dashes = ' stroke-dasharray="5 3"' if style == "beyond" else ""
            colour = _COLOURS.get(style, _PROVEN)
            samples.append(
                (f'<rect x="{x}" y="-9" width="{width}" height="11" fill="{fill}" stroke="{colour}"{dashes}/>', words)
            )
    if any(row.example is not None for row in rows):
        samples.append((f'<path d="M{x + 9} -8h8l-4 7z"/>', "the example"))
    if any(row.called for row in rows):
        samples.append((_circle(x + width / 2, -4), "called by the service itself"))
    if any(row.together_up_to is not None for row in rows):
        bracket = f'<path d="M{x} 0v-5h{width}v5" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        samples.append((bracket, "batch certificate: rows answered together"))
    if any(row.wrong for row in rows):
        samples.append((_cross(x + width / 2, -4), "wrong, always refused"))
    line = f'<line x1="{x}" x2="{x + width}" y1="-4" y2="-4" stroke="currentColor" stroke-dasharray="2 3"/>'
    samples.append((line, "not known: answered with a warning" if is_open else "refused"))
    for at, (sample, words) in enumerate(samples):
        yield Html(
            f'<g transform="translate(0 {top + 14 + at * _LEGEND})">{sample}<text x="{x + width + 8}">{text(words)}'
            "</text></g>"
        )


def _patterns(prefix: str) -> Html:
    """Return the patterns: how a size is known is also seen without colours."""
    sizes = 'width="6" height="6" patternUnits="userSpaceOnUse"'
    tilted = 'patternTransform="rotate(45)"'
    return Html(
        f'<pattern id="{prefix}-beyond" {sizes}><path d="M0 1.5h6" stroke="{_PROVEN}" stroke-width="2"/></pattern>'
        f'<pattern id="{prefix}-sampled" {sizes} {tilted}><path d="M1.5 0v6" stroke="{_SAMPLED}" stroke-width="3"/>'
        f'</pattern><pattern id="{prefix}-tested" {sizes}><circle cx="3" cy="3" r="1.8" fill="{_TESTED}"/></pattern>'
    )
