"""Memory: how much memory a call of some sizes needs at most, as a sum of products of sizes.

It bounds the sizes of a region that go on beyond those that were called (`Region.beyond`).
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Annotated

from pydantic import Field

from tracehouse.byte_units import MIB
from tracehouse.contract.dims import Symbol
from tracehouse.frozen import Frozen

TERMS_MAX = 256
# Kernels of torch count elements in 32 bits in places, so beyond called sizes no tensor may have more.
ELEMENTS_MAX = 2**31 - 1
_TERMS_SHOWN = 4


# Each symbol of a product with its power, sorted.
Powers = tuple[tuple[str, int], ...]


class SizeProduct(Frozen):
    """A number times sizes: `times` 16 and `powers` {"batch": 1, "seq": 2} are 16 * batch * seq * seq."""

    times: float = Field(gt=0, allow_inf_nan=False)
    powers: dict[Symbol, Annotated[int, Field(ge=1, le=64)]] = Field(max_length=64)

    @property
    def key(self) -> Powers:
        """The powers in a form that can be a key."""
        return tuple(sorted(self.powers.items()))

    def at(self, sizes: Mapping[str, int]) -> float:
        """Return the product. Raises KeyError if a symbol has no size."""
        product = self.times
        for symbol, power in self.powers.items():
            product *= float(sizes[symbol]) ** power
        return product

    def __str__(self) -> str:
        return "·".join([f"{self.times:.3g}", *(_power(symbol, power) for symbol, power in self.powers.items())])


SizeProducts = Annotated[list[SizeProduct], Field(max_length=TERMS_MAX)]


class Memory(Frozen):
    """What a call needs at most: the tensors that it has at one time, and the elements of the largest of them."""

    bytes: SizeProducts = Field(
        description="The sum of these products of sizes is the number of bytes of all tensors that a call has at one "
        "time, at most. It follows from the shapes of what the graph computes, and calls were measured against it."
    )
    elements: SizeProducts = Field(
        description="The sum of these products is the number of elements of the largest tensor, at most. Beyond the "
        f"sizes that were called, it may be {ELEMENTS_MAX}."
    )

    def needed_bytes(self, sizes: Mapping[str, int]) -> int:
        """Return how many bytes a call of these sizes needs at most. Raises KeyError if a symbol has no size."""
        return _sum(self.bytes, sizes)

    def largest_elements(self, sizes: Mapping[str, int]) -> int:
        """Return how many elements a tensor has at most in a call of these sizes. Raises KeyError as above."""
        return _sum(self.elements, sizes)

    def enlarged(self, factor: float, more_bytes: int) -> "Memory":
        """Return the same with so many times the bytes, and so many more in each call."""
        terms = {one.key: factor * one.times for one in self.bytes}
        terms[()] = terms.get((), 0.0) + more_bytes
        return Memory(bytes=_products(terms), elements=self.elements)

    def at_fixed(self, sizes: Mapping[str, int]) -> "Memory":
        """Return the same where these symbols have these sizes."""
        return Memory(bytes=_fix(self.bytes, sizes), elements=_fix(self.elements, sizes))

    @property
    def symbols(self) -> set[str]:
        """The symbols in the products."""
        return {symbol for one in (*self.bytes, *self.elements) for symbol in one.powers}

    def is_within(self, other: "Memory") -> bool:
        """Whether a call never needs more than the other says, whatever the sizes are.

        It is decided product by product, so that False may only mean that this was not shown.
        """
        return all(_are_within(own, others) for own, others in ((self.bytes, other.bytes),
                                                                (self.elements, other.elements)))  # fmt: skip

    def __str__(self) -> str:
        """Return the bytes in words, with the products that grow fastest first."""
        ordered = sorted(self.bytes, key=lambda one: (-sum(one.powers.values()), -one.times))
        shown = " + ".join(map(str, ordered[:_TERMS_SHOWN]))
        more = len(ordered) - _TERMS_SHOWN
        return f"{shown}{f' + {more} smaller products' if more > 0 else ''} bytes" if shown else "0 bytes"


def format_mib(count: int) -> str:
    """Format a number of bytes in MiB for a sentence, rounded up."""
    return f"{ceil(count / MIB)} MiB"


def _sum(products: Sequence[SizeProduct], sizes: Mapping[str, int]) -> int:
    return ceil(sum(one.at(sizes) for one in products))


def _products(terms: Mapping[Powers, float]) -> list[SizeProduct]:
    return [SizeProduct(times=times, powers=dict(powers)) for powers, times in terms.items() if times > 0]


def _fix(products: Sequence[SizeProduct], sizes: Mapping[str, int]) -> list[SizeProduct]:
    terms: dict[Powers, float] = {}
    for one in products:
        left = {symbol: power for symbol, power in one.powers.items() if symbol not in sizes}
        fixed = {symbol: power for symbol, power in one.powers.items() if symbol in sizes}
        times = SizeProduct(times=one.times, powers=fixed).at(sizes)
        key = tuple(sorted(left.items()))
        terms[key] = terms.get(key, 0.0) + times
    return _products(terms)


def _are_within(own: Sequence[SizeProduct], others: Sequence[SizeProduct]) -> bool:
    most = {one.key: one.times for one in others}
    return all(one.times <= most.get(one.key, 0.0) for one in own)


def _power(symbol: str, power: int) -> str:
    return symbol if power == 1 else f"{symbol}^{power}"
