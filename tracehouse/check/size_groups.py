"""Size groups: the dims that move together, and calls of other sizes than the example's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from tracehouse.contract.dims import Linear, SymbolicShape, format_sizes, shape_at, solve, symbols_of
from tracehouse.contract.input_spec import Reason
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.torch_values import resizing

# An input is not made larger than this, or than so many times the example's.
BYTES_MAX = 64 * 2**20
TIMES_EXAMPLE_MAX = 8
_SMALL_BYTES = 2**20
_SHOWN = 3


@dataclass(frozen=True)
class Groups:
    """What the eager model takes: each input leaf's shape in symbols, and why the other dims have one size alone.

    `example` has the sizes of the example; `fixed` is by leaf and by the place of the dim.
    """

    shapes: dict[str, SymbolicShape]
    example: dict[str, int]
    fixed: dict[str, dict[str, Reason]]
    # Of a symbol that cannot have every size: from one that eager takes to the next, counted from the example's.
    steps: dict[str, int] = field(default_factory=dict)
    # Sizes that the eager model compares a symbol with.
    edges: dict[str, list[int]] = field(default_factory=dict)
    # Inputs of integers that tell of a size, such as lengths, and its symbol: they change with it.
    telling: dict[str, str] = field(default_factory=dict)
    # Of symbols that were declared: eager takes none of the other sizes that were tried.
    refused: dict[str, ModelRaised] = field(default_factory=dict)

    @property
    def symbols(self) -> list[str]:
        return list(self.example)

    def dims_of(self, symbol: str) -> str:
        """Where it is a size of, as sentences have it: `dim 1 of ids and dim 1 of mask`."""
        dims = [
            f"dim {place} of {name}"
            for name, shape in self.shapes.items()
            for place, dim in enumerate(shape)
            if symbol in symbols_of([dim])
        ]
        return _joined(dims)

    def shapes_of(self, symbols: Iterable[str], sizes: Mapping[str, int]) -> str:
        """The shapes at these sizes that have one of the symbols: `ids [2, 5] and mask [2, 5]`."""
        full = self.sizes(sizes)
        of_them = [name for name, shape in self.shapes.items() if {*symbols} & symbols_of(shape)]
        return _joined([f"{name} {full[name]}" for name in of_them])

    def step(self, symbol: str) -> int:
        return self.steps.get(symbol, 1)

    def sizes(self, sizes: Mapping[str, int]) -> dict[str, list[int]]:
        """Each leaf's shape at these sizes of symbols, the others as in the example. Raises ValueError below 0."""
        full = {**self.example, **sizes}
        found = {name: [*shape_at(shape, full)] for name, shape in self.shapes.items()}
        if any(size < 0 for shape in found.values() for size in shape):
            raise ValueError(f"a dim would be negative where {format_sizes(sizes)}")
        return found

    def resized(self, call: Call, sizes: Mapping[str, int], seed: int) -> Call:
        """The call with these sizes of symbols, the others as in the example: values of its own, repeated or left off,
        floats a little moved. Raises ValueError where a dim would be negative."""
        given = call.tensors
        made = dict(given)
        for place, (name, shape) in enumerate(self.sizes(sizes).items()):
            made[name] = resizing.resize(given[name], shape, seed + place)
        for name, symbol in self.telling.items():
            was = self.example[symbol]
            made[name] = resizing.fit_to_size(made[name], was, sizes.get(symbol, was))
        return call.with_tensors(made)

    def is_affordable(self, call: Call, sizes: Mapping[str, int]) -> bool:
        """Whether no input becomes much larger than the example's, and none of its dims negative."""
        try:
            shapes = self.sizes(sizes)
        except ValueError:
            return False
        given = call.tensors
        return all(
            prod(shape) * given[name].element_size() <= _bytes_max(given[name].nbytes) for name, shape in shapes.items()
        )


def _joined(texts: Sequence[str]) -> str:
    """As sentences have them; of many the first."""
    many = len(texts) > _SHOWN + 1
    shown = [*texts[:_SHOWN], f"{len(texts) - _SHOWN} more"] if many else texts
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


def _bytes_max(example: int) -> int:
    return max(example, min(BYTES_MAX, max(TIMES_EXAMPLE_MAX * example, _SMALL_BYTES)))


def declared(call: Call, said: Mapping[str, Mapping[str, str]]) -> Groups:
    """As a person said it, by leaf and place. Raises ValueError where the example is not so."""
    given = call.tensors
    for name, dims in said.items():
        if name not in given:
            raise ValueError(f"there is no input {name!r}")
        if beyond := [place for place in dims if int(place) >= given[name].dim()]:
            raise ValueError(f"{name!r} has no dim {beyond[0]}")
    shapes: dict[str, SymbolicShape] = {
        name: tuple(said.get(name, {}).get(str(place), size) for place, size in enumerate(tensor.shape))
        for name, tensor in given.items()
    }
    example = solve([(shape, given[name].shape) for name, shape in shapes.items()])
    if example is None:
        raise ValueError("the example's sizes do not fit those expressions")
    return Groups(shapes, example, reasons(shapes, lambda _: "untried"))


def reasons(
    shapes: Mapping[str, SymbolicShape], why: Callable[[tuple[str, int]], Reason]
) -> dict[str, dict[str, Reason]]:
    """Why each dim that is a number is one."""
    return {
        name: {str(place): why((name, place)) for place, dim in enumerate(shape) if isinstance(dim, int)}
        for name, shape in shapes.items()
    }


def shape_of(dims: Mapping[tuple[str, int], Linear], name: str, sizes: "list[int]") -> SymbolicShape:
    """A leaf's shape in symbols, of the dims that are told by some."""
    return tuple(str(dims[name, place]) if (name, place) in dims else size for place, size in enumerate(sizes))
