"""Affine sizes: sizes of one contract's dims as expressions of another contract's symbols, in fractions."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd, lcm
from typing import Self

from tracehouse.contract.dims import Linear, parse_dim


@dataclass(frozen=True, slots=True)
class Affine:
    """The sum of `times * symbol` over `terms`, which has no zeros, plus the number `plus`."""

    terms: Mapping[str, Fraction]
    plus: Fraction

    @classmethod
    def of_dim(cls, dim: int | str) -> Self:
        """Return a dim of a shape; of one that is rounded, what is divided (see `Linear.over`)."""
        linear = Linear((), dim) if isinstance(dim, int) else parse_dim(dim)
        return cls({symbol: Fraction(times) for symbol, times in linear.terms}, Fraction(linear.plus))

    def substitute(self, values: Mapping[str, "Affine"]) -> "Affine":
        """Return this expression with the value of each symbol that has one in its place."""
        terms: dict[str, Fraction] = {}
        plus = self.plus
        for symbol, times in self.terms.items():
            value = values.get(symbol, Affine({symbol: Fraction(1)}, Fraction(0)))
            plus += times * value.plus
            for inner, inner_times in value.terms.items():
                terms[inner] = terms.get(inner, Fraction(0)) + times * inner_times
        return Affine({symbol: times for symbol, times in terms.items() if times}, plus)

    def minus(self, other: "Affine") -> "Affine":
        """Return the difference."""
        both = Affine({"this": Fraction(1), "other": Fraction(-1)}, Fraction(0))
        return both.substitute({"this": self, "other": other})

    def divided_by(self, divisor: Fraction) -> "Affine":
        """Return the quotient."""
        return Affine({symbol: times / divisor for symbol, times in self.terms.items()}, self.plus / divisor)

    @property
    def number(self) -> Fraction | None:
        """The value, if it depends on no symbol."""
        return None if self.terms else self.plus

    def solutions(self, sizes: range) -> range:
        """Return the sizes from 0 on of the expression's one symbol at which the expression is one of `sizes`.

        `sizes` is not empty, and its step is positive.
        """
        [times] = self.terms.values()
        if times == 1 and not self.plus and sizes[0] >= 0:
            return sizes
        # Over the common denominator, and with `step` times as well: a * symbol + b = common * size.
        common = lcm(times.denominator, self.plus.denominator)
        a, b = int(times * common), int(self.plus * common)
        modulus, remainder = common * sizes.step, common * sizes[0] - b
        divisor = gcd(a, modulus)
        if remainder % divisor:
            return range(0)
        step = modulus // divisor
        place = remainder // divisor * pow(a // divisor, -1, step) % step
        ends = sorted([Fraction(common * sizes[0] - b, a), Fraction(common * sizes[-1] - b, a)])
        low, high = max(ceil(ends[0]), 0), floor(ends[1])
        return range(low + (place - low) % step, high + 1, step)
