"""A histogram of differences as SVG: one bin per power of ten, and one for exact zeros."""

from collections import Counter
from collections.abc import Sequence
from math import floor, isfinite, log10

from tracehouse.findings.comparison import Comparison
from tracehouse.report.markup import Html, text

_LOWEST, _HIGHEST = -12, 6  # powers of ten; the outermost bins count everything beyond
_WIDTH, _HEIGHT, _GAP, _BASE, _LEFT = 44, 120, 6, 150, 10  # pixels
_WIDTH_LEAST = 300  # pixels: a narrower picture would cut the caption
_ZERO, _NONE = "0", "none"


def histogram_of(comparisons: Sequence[Comparison]) -> Html:
    """Return a histogram of the largest absolute difference of each comparison, as SVG.

    Each bar shows agreeing and differing comparisons apart.
    """
    agreeing = Counter(_bin_of(one) for one in comparisons if one.agrees)
    differing = Counter(_bin_of(one) for one in comparisons if not one.agrees)
    bins = _bins(set(agreeing) | set(differing))
    most = max((agreeing[name] + differing[name] for name in bins), default=1)
    width = max(_WIDTH_LEAST, _LEFT * 2 + len(bins) * (_WIDTH + _GAP))
    bars = "".join(_bar(place, name, agreeing[name], differing[name], most) for place, name in enumerate(bins))
    said = "; ".join(f"{_label(name)}: {agreeing[name]} agree, {differing[name]} differ" for name in bins)
    return Html(
        f'<svg role="img" viewBox="0 0 {width} {_BASE + 46}" width="{width}" height="{_BASE + 46}" '
        f'font-size="12" fill="currentColor" aria-label="{text("Comparisons by their largest difference. " + said)}">'
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="6" height="6" fill="#d1453b"/><rect width="2" height="6" fill="#ffffff"/></pattern></defs>'
        f'<line x1="0" y1="{_BASE}" x2="{width}" y2="{_BASE}" stroke="currentColor"/>{bars}'
        f'<text x="{width / 2:.0f}" y="{_BASE + 40}" text-anchor="middle">largest difference of a comparison</text>'
        "</svg>"
    )


def _bin_of(one: Comparison) -> str | int:
    size = one.largest_difference
    if size is None or not isfinite(size):
        return _NONE
    return _ZERO if size == 0 else min(_HIGHEST, max(_LOWEST, floor(log10(abs(size)))))


def _bins(named: set[str | int]) -> list[str | int]:
    """Return the bins: zero, then every power between the outermost ones, then differences without a number."""
    powers = [name for name in named if isinstance(name, int)]
    between: list[str | int] = [*range(min(powers), max(powers) + 1)] if powers else []
    return [_ZERO, *between, *([_NONE] if _NONE in named else [])]


def _bar(place: int, name: str | int, agreeing: int, differing: int, most: int) -> str:
    x = _LEFT + place * (_WIDTH + _GAP)
    of_agreeing, of_differing = _HEIGHT * agreeing / most, _HEIGHT * differing / most
    top = _BASE - of_agreeing - of_differing
    number = agreeing + differing
    middle = x + _WIDTH / 2
    return (
        f'<rect x="{x}" y="{_BASE - of_agreeing:.1f}" width="{_WIDTH}" height="{of_agreeing:.1f}" fill="#2a8f66"/>'
        f'<rect x="{x}" y="{top:.1f}" width="{_WIDTH}" height="{of_differing:.1f}" fill="url(#hatch)" stroke="#d1453b" '
        f'stroke-width="{1 if differing else 0}"/>'
        + (f'<text x="{middle:.0f}" y="{top - 5:.1f}" text-anchor="middle">{number}</text>' if number else "")
        + f'<text x="{middle:.0f}" y="{_BASE + 18}" text-anchor="middle">{_label(name)}</text>'
    )


def _label(name: str | int) -> str:
    if isinstance(name, str):
        return "exact" if name == _ZERO else "none"
    return f"1e{name}"
