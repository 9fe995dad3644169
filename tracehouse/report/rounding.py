"""Rounding: numbers in a sentence with as many digits as a person reads, and as many as tell them apart."""

import re
from math import isfinite

_DIGITS, _DIGITS_MAX = 4, 17  # significant ones: chosen, and all that a float has
_PLAIN_MAX = 10**15  # from here on, a number stays as short as its exponent makes it
# A number that is no part of a name, a version or a path. Only one with a point or an exponent is rounded.
_NUMBER = re.compile(r"(?<![\w.:/-])-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?(?![\w+])(?![.:/]\w)")


def round_numbers(sentence: str) -> str:
    """Return the sentence with its numbers rounded. Numbers that differ in it still differ afterwards."""
    values = {found[0]: float(found[0]) for found in _NUMBER.finditer(sentence)}
    short = dict(zip(values, values, strict=True))
    for digits in range(_DIGITS, _DIGITS_MAX + 1):
        short = {written: _shorten(written, value, digits) for written, value in values.items()}
        if len({float(one) for one in short.values()}) == len(set(values.values())):
            break
    return _NUMBER.sub(lambda found: short[found[0]], sentence)


def _shorten(written: str, value: float, digits: int) -> str:
    """Return the number with so many digits, or as it is written where that is no longer."""
    if not isfinite(value) or not set(".e") & set(written):
        return written
    if "e" in written and 1 <= abs(value) < _PLAIN_MAX:
        return str(int(value)) if value.is_integer() else f"{value:.{digits}g}"
    rounded = f"{value:.0f}" if 10**digits <= abs(value) < _PLAIN_MAX else f"{value:.{digits}g}"
    return rounded if len(rounded) + 1 < len(written) - written.endswith(".0") else written
