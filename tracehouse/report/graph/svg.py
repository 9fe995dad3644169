"""A graph as a picture: the operators in layers, data flowing downwards."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from zlib import crc32

from tracehouse.artifact.manifest import Printout
from tracehouse.report.graph import boxes
from tracehouse.report.graph.boxes import TITLE_MAX, Box, Edge, shorten
from tracehouse.report.graph.layout import SPAN_MAX, Place, lay_out
from tracehouse.report.markup import text

# Returns the address of the same picture with one more submodule unfolded.
Link = Callable[[str], str]

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 40, 24, 34, 20  # pixels
_LABEL_MAX = 25  # characters: what a box has room for

_STYLE = (
    "text{font:12px ui-monospace,monospace;text-anchor:middle;fill:#1b1f24}"
    "text.type{font-size:10px;fill:#57606a}"
    "path{fill:none;stroke:#8c959f;marker-end:url(#tip)}"
    "path.far{stroke-dasharray:4 4}"
    "rect.box{stroke-width:1.2}"
    "a rect.box{stroke-width:3}"
)


def draw(printout: Printout, opened: Collection[str] = (), link: Link | None = None) -> str:
    """Return well-formed SVG, whatever names the printout has. With `link`, folded boxes are links."""
    drawn = boxes.boxes_of(printout, opened)
    layout = lay_out(len(drawn.boxes), drawn.edges)
    width = max((x for x, _ in layout.places), default=0) * (_BOX_WIDTH + _GAP_X) + _BOX_WIDTH + 2 * _MARGIN
    height = max((y for _, y in layout.places), default=0) * (_BOX_HEIGHT + _GAP_Y) + _BOX_HEIGHT + 2 * _MARGIN
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" ',
            f'viewBox="{-_MARGIN} {-_MARGIN} {width:.0f} {height:.0f}" role="img">',
            f"<title>{text(drawn.title)}</title><style>{_STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" ',
            'orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#8c959f;stroke:none;marker-end:none"/></marker></defs>',
            f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="100%" height="100%" fill="#fff"/>',
            *(_draw_edge(edge, route) for edge, route in zip(drawn.edges, layout.routes, strict=True)),
            *(_draw_box(box, place, link) for box, place in zip(drawn.boxes, layout.places, strict=True)),
            "</svg>",
        ]
    )


def hue(module: str) -> int:
    """Return the hue of a box in degrees (0 to 359), the same for all boxes of one top-level submodule."""
    return crc32(module.partition(".")[0].encode(errors="replace")) % 360


def _draw_edge(edge: Edge, route: Sequence[Place]) -> str:
    path = "".join(_path_commands([(x * (_BOX_WIDTH + _GAP_X), y * (_BOX_HEIGHT + _GAP_Y)) for x, y in route]))
    far = ' class="far"' if abs(route[-1][1] - route[0][1]) > SPAN_MAX else ""
    return f'<path{far} d="{path}"><title>{text(shorten(edge.title, TITLE_MAX))}</title></path>'


def _path_commands(route: Sequence[Place]) -> Iterator[str]:
    """Yield the SVG path commands from a box's lower edge to another box's upper edge, vertical at each layer."""
    middle = _BOX_WIDTH / 2
    x, y = route[0][0] + middle, route[0][1] + _BOX_HEIGHT
    yield f"M{x:.0f} {y:.0f}"
    for place, (left, next_y) in enumerate(route[1:], start=2):
        bend, next_x = (y + next_y) / 2, left + middle
        yield f"C{x:.0f} {bend:.0f} {next_x:.0f} {bend:.0f} {next_x:.0f} {next_y:.0f}"
        x, y = next_x, next_y + _BOX_HEIGHT
        if place < len(route):
            yield f"V{y:.0f}"


def _draw_box(box: Box, place: Place, link: Link | None) -> str:
    x, y = place[0] * (_BOX_WIDTH + _GAP_X), place[1] * (_BOX_HEIGHT + _GAP_Y)
    of_module = hue(box.module)
    fill, stroke = (f"hsl({of_module},65%,92%)", f"hsl({of_module},45%,55%)") if box.module else ("#f6f8fa", "#8c959f")
    middle = x + _BOX_WIDTH / 2
    lines = [_draw_line(box.label, "", middle, y + (17 if box.type else 24))]
    if box.type:
        lines.append(_draw_line(box.type, ' class="type"', middle, y + 31))
    drawn = (
        f"<g><title>{text(shorten(box.title, TITLE_MAX))}</title>"
        f'<rect class="box" x="{x:.0f}" y="{y:.0f}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" '
        f'fill="{fill}" stroke="{stroke}"/>{"".join(lines)}</g>'
    )
    return drawn if link is None or box.opens is None else f'<a href="{text(link(box.opens))}">{drawn}</a>'


def _draw_line(label: str, style: str, middle: float, y: float) -> str:
    return f'<text{style} x="{middle:.0f}" y="{y:.0f}">{text(_shorten_label(label))}</text>'


def _shorten_label(label: str) -> str:
    """Return the label cut to fit. A submodule's path is cut at its start, which its neighbours share."""
    if len(label) <= _LABEL_MAX or not re.fullmatch(r"[\w.]+", label):
        return shorten(label, _LABEL_MAX)
    return "…" + label[1 - _LABEL_MAX :]
