"""Cells: what one server did for so many callers in one form, and the tables and the plot of many of them."""

from collections.abc import Iterator, Mapping, Sequence
from math import log10
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

import orjson

HEAD = f"{'':<24} {'callers':>7} {'form':>5} {'per s':>9} {'p50 ms':>9} {'p99 ms':>9} {'CPU µs':>9} {'MiB':>6}"
_COLOURS = ("#1f6feb", "#b35900", "#2da44e", "#8250df", "#cf222e", "#6e7781", "#bf8700", "#0a9396", "#d63384")

T = TypeVar("T")


class Cell(NamedTuple):
    """`processor_us` is of each request, and `memory_mib` of all processes of the server; 0 if it has none."""

    model: str
    side: str
    callers: int
    form: str  # json or bytes
    per_s: float
    p50_ms: float
    p99_ms: float
    processor_us: float
    memory_mib: float

    @property
    def line(self) -> str:
        return (
            f"{self.side:<24} {self.callers:>7} {self.form:>5} {self.per_s:>9.0f} {self.p50_ms:>9.2f}"
            f" {self.p99_ms:>9.2f} {self.processor_us:>9.1f} {self.memory_mib:>6.0f}"
        )


class Cells:
    """The cells of all models in a file. Those of a model and a side are replaced by the first new one."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._replaced: set[tuple[str, str]] = set()
        known = orjson.loads(file.read_bytes()) if file is not None and file.exists() else []
        self.all = [Cell(*one) for one in known]

    def add(self, cell: Cell) -> None:
        print(cell.line, flush=True)
        if (place := (cell.model, cell.side)) not in self._replaced:
            self._replaced.add(place)
            self.all = [one for one in self.all if (one.model, one.side) != place]
        self.all.append(cell)
        if self._file is not None:
            lines = b",\n".join(orjson.dumps([round(part, 2) if isinstance(part, float) else part for part in one])
                                for one in self.all)  # fmt: skip
            self._file.write_bytes(b"[\n" + lines + b"\n]\n")

    def found(self, model: str, side: str, callers: int, form: str) -> list[Cell]:
        wanted = (model, side, callers, form)
        return [one for one in self.all if (one.model, one.side, one.callers, one.form) == wanted]


def tables(cells: Cells) -> Iterator[str]:
    """Yield the lines of a table in Markdown for each model; of a side that was measured twice, the median of both."""
    for model in _in_order([one.model for one in cells.all]):
        of_model = [one for one in cells.all if one.model == model]
        counts = sorted({one.callers for one in of_model})
        busy = 32 if 32 in counts else counts[-1]
        yield f"\n{model}: microseconds of the processor a request, as JSON and as bytes\n"
        heads = [f"{count} caller{'s' * (count > 1)}" for count in counts]
        yield f"| | {' | '.join(heads)} | p50 of 1, ms | p99 of {busy}, ms | a second, {busy} | MiB |"
        yield "| --- |" + " ---: |" * (len(counts) + 4)
        for side in _in_order([one.side for one in of_model]):
            of_side = [one for one in of_model if one.side == side]
            parts = [_both(of_side, count, "processor_us", "{:,.0f}") for count in counts]
            parts += [_both(of_side, 1, "p50_ms", "{:.2f}"), _both(of_side, busy, "p99_ms", "{:,.0f}")]
            parts += [_both(of_side, busy, "per_s", "{:,.0f}"), f"{max(one.memory_mib for one in of_side):.0f}"]
            yield f"| {side} | {' | '.join(parts)} |"


def _both(of_side: Sequence[Cell], callers: int, figure: str, form: str) -> str:
    """Return the figure for JSON and for bytes, as far as they were measured."""
    said = []
    for kind in ("json", "bytes"):
        found = [getattr(one, figure) for one in of_side if (one.callers, one.form) == (callers, kind)]
        said.append(form.format(median(found)) if found else "-")
    return "" if said == ["-", "-"] else ", ".join(said)


def plot(cells: Cells, sides: Sequence[str]) -> str:
    """The processor time of a request over the number of callers, for each model and form, as an SVG."""
    sides = [side for side in sides if any(one.side == side for one in cells.all)]
    models = _in_order([one.model for one in cells.all])
    counts = sorted({one.callers for one in cells.all})
    width, height, left, top = 250, 230, 60, 30
    colours = dict(zip(sides, _COLOURS, strict=False))
    whole = (left + width * len(models), top + height * 2 + 20 + 18 * ((len(sides) + 3) // 4))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole[0]} {whole[1]}" font-family="sans-serif"',
        ' font-size="12"><rect width="100%" height="100%" fill="white"/>',
    ]
    for column, model in enumerate(models):
        for row, form in enumerate(("json", "bytes")):
            lines = {
                side: {count: median([one.processor_us for one in found])
                       for count in counts if (found := cells.found(model, side, count, form))}
                for side in sides
            }  # fmt: skip
            corner = (left + column * width, top + row * height)
            parts += _panel(f"{model}, {form}", lines, counts, corner, (width - 60, height - 60), colours)
    for place, side in enumerate(sides):
        x, y = left + place % 4 * width, top + height * 2 + 10 + 18 * (place // 4)
        parts.append(f'<path d="M{x} {y - 4}h18" stroke="{colours[side]}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 24}" y="{y}">{side}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    title: str,
    lines: Mapping[str, Mapping[int, float]],
    counts: Sequence[int],
    corner: tuple[int, int],
    size: tuple[int, int],
    colours: Mapping[str, str],
) -> Iterator[str]:
    values = [value for line in lines.values() for value in line.values()]
    if not values:
        return
    low, high = int(log10(min(values))), int(log10(max(values))) + 1

    def place(count: int, used_us: float) -> tuple[float, float]:
        x = corner[0] + counts.index(count) / max(1, len(counts) - 1) * size[0]
        return round(x, 1), round(corner[1] + (high - log10(used_us)) / (high - low) * size[1], 1)

    yield f'<text x="{corner[0]}" y="{corner[1] - 10}" font-weight="bold">{title}</text>'
    for power in range(low, high + 1):
        x, y = place(counts[0], 10**power)
        yield f'<path d="M{x} {y}h{size[0]}" stroke="#ddd"/>'
        yield f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{_duration(10**power)}</text>'
    for count in counts:
        x, y = place(count, 10**low)
        yield f'<text x="{x}" y="{y + 18}" text-anchor="middle">{count}</text>'
    for side, line in lines.items():
        points = [place(count, used_us) for count, used_us in line.items()]
        through = " ".join(f"{x},{y}" for x, y in points)
        yield f'<polyline points="{through}" fill="none" stroke="{colours[side]}" stroke-width="2"/>'
        yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colours[side]}"/>' for x, y in points)


def _duration(us: float) -> str:
    return f"{us:g} µs" if us < 1000 else f"{us / 1000:g} ms"


def _in_order(values: Sequence[T]) -> list[T]:
    return [*dict.fromkeys(values)]
