"""Size groups: the dims that change size together, and calls of other sizes than the example's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from tracehouse.byte_units import MIB
from tracehouse.contract.dims import Linear, SymbolicShape, format_sizes, shape_at, solve, symbols_of
from tracehouse.contract.input_spec import Reason
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.tensors.tensor import TensorSpec
from tracehouse.torch_values import resizing

# An input is made no larger than BYTES_MAX, and no larger than TIMES_EXAMPLE_MAX times the example's unless it stays
# below _SMALL_BYTES. The numbers are choices: a call of another size must stay affordable.
BYTES_MAX = 64 * MIB
TIMES_EXAMPLE_MAX = 8
_SMALL_BYTES = MIB
_SHOWN = 3


@dataclass(frozen=True)
class Groups:
    """The sizes that the eager model accepts: each input leaf's shape in symbols, and why other dims have one size.

    `shapes` has a number or an expression such as `2*seq` for each dim, by leaf. `example` has the example's size of
    each symbol. `fixed` has a reason by leaf and by the dim's place from 0, as text.
    """

    shapes: dict[str, SymbolicShape]
    example: dict[str, int]
    fixed: dict[str, dict[str, Reason]]
    # For a symbol that cannot have every size: the distance between accepted sizes, counted from the example's. The
    # eager model accepts no others, or the artifact is wrong at them.
    steps: dict[str, int] = field(default_factory=dict)
    # For such a symbol: sizes between two accepted ones that the eager model answers, and the artifact wrongly.
    between: dict[str, list[int]] = field(default_factory=dict)
    # Calls that the eager model answers, and the artifact wrongly, because dims that have these symbols change apart.
    apart: list[tuple[tuple[str, ...], Call]] = field(default_factory=list)
    # Calls of other sizes on which the artifact was found right, with the shapes and datatypes of the outputs.
    agreed: list[tuple[Call, Sequence[TensorSpec]]] = field(default_factory=list)
    # Sizes that the eager model compares a symbol with.
    edges: dict[str, list[int]] = field(default_factory=dict)
    # Integer inputs whose values describe a size, such as lengths, and the symbol of that size: they change with it.
    lengths: dict[str, str] = field(default_factory=dict)
    # Symbols that may be 0: eager takes an input without elements, beside others that have some.
    may_be_empty: frozenset[str] = frozenset()
    # Declared symbols of which eager refused every other size that was tried, with its first error.
    refusals: dict[str, ModelRaised] = field(default_factory=dict)

    @property
    def symbols(self) -> list[str]:
        """The names of all symbols."""
        return list(self.example)

    def describe_dims(self, *symbols: str) -> str:
        """Return the dims that have one of the symbols, for use in a sentence: `dim 1 of ids and dim 1 of mask`."""
        dims = [
            f"dim {place} of {name}"
            for name, shape in self.shapes.items()
            for place, dim in enumerate(shape)
            if symbols_of([dim]) & {*symbols}
        ]
        return _join_texts(dims)

    def describe_shapes(self, symbols: Iterable[str], sizes: Mapping[str, int]) -> str:
        """Return the shapes at these sizes of the inputs that have one of the symbols: `ids [2, 5] and mask [2, 5]`."""
        full = self.sizes(sizes)
        concerned = [name for name, shape in self.shapes.items() if {*symbols} & symbols_of(shape)]
        return _join_texts([f"{name} {full[name]}" for name in concerned])

    def describe_call(self, example: Call, call: Call) -> str:
        """Return the shapes of the call's inputs that differ from the example's: `mask [2, 5]`."""
        was = example.tensors
        differing = [name for name, tensor in call.tensors.items() if tensor.shape != was[name].shape]
        return _join_texts([f"{name} {[*call.tensors[name].shape]}" for name in differing])

    def is_in_all_inputs(self, symbol: str) -> bool:
        """Whether every input that has symbols has this one."""
        return all(symbol in symbols for shape in self.shapes.values() if (symbols := symbols_of(shape)))

    def is_leading(self, symbol: str) -> bool:
        """Whether the symbol is the first dim of the inputs that have it, and no other dim: it is a number of rows."""
        shapes = [shape for shape in self.shapes.values() if symbol in symbols_of(shape)]
        return all(shape[0] == symbol and symbol not in symbols_of(shape[1:]) for shape in shapes)

    def step(self, symbol: str) -> int:
        """Return the distance between two sizes of the symbol that are accepted; 1 if any is."""
        return self.steps.get(symbol, 1)

    def sizes(self, sizes: Mapping[str, int]) -> dict[str, list[int]]:
        """Return each leaf's shape at these sizes by symbol; other symbols have the example's size.

        Raises ValueError if a dim would be negative.
        """
        full = {**self.example, **sizes}
        shapes = {name: [*shape_at(shape, full)] for name, shape in self.shapes.items()}
        if any(size < 0 for shape in shapes.values() for size in shape):
            raise ValueError(f"a dim would be negative where {format_sizes(sizes)}")
        return shapes

    def sizes_of(self, call: Call) -> dict[str, int] | None:
        """Return the size of each symbol in a call; None if its inputs have shapes that no sizes give."""
        shapes = {name: [*tensor.shape] for name, tensor in call.tensors.items()}
        if shapes.keys() != self.shapes.keys() or any(len(shapes[name]) != len(self.shapes[name]) for name in shapes):
            return None
        solved = solve([(self.shapes[name], shape) for name, shape in shapes.items()])
        return solved if solved is not None and self.sizes(solved) == shapes else None

    def resize(self, call: Call, sizes: Mapping[str, int], seed: int) -> Call:
        """Return the call at these sizes by symbol; other symbols have the example's size.

        The values are the call's own, repeated or cut off. Floats get a little noise, which `seed` decides. Raises
        ValueError if a dim would be negative.
        """
        tensors = dict(call.tensors)
        for name, symbol in self.lengths.items():
            was = self.example[symbol]
            tensors[name] = resizing.fit_to_size(tensors[name], was, sizes.get(symbol, was))
        for place, (name, shape) in enumerate(self.sizes(sizes).items()):
            tensors[name] = resizing.resize(tensors[name], shape, seed + place)
        return call.with_tensors(tensors)

    def is_affordable(self, call: Call, sizes: Mapping[str, int]) -> bool:
        """Whether every input stays within the bytes that an input may have at these sizes, and no dim is negative."""
        try:
            shapes = self.sizes(sizes)
        except ValueError:
            return False
        given = call.tensors
        return all(
            prod(shape) * given[name].element_size() <= _bytes_max(given[name].nbytes) for name, shape in shapes.items()
        )


def _join_texts(texts: Sequence[str]) -> str:
    """Join texts for use in a sentence: the first few, and how many more there are."""
    many = len(texts) > _SHOWN + 1
    shown = [*texts[:_SHOWN], f"{len(texts) - _SHOWN} more"] if many else texts
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


def _bytes_max(example: int) -> int:
    return max(example, min(BYTES_MAX, max(TIMES_EXAMPLE_MAX * example, _SMALL_BYTES)))


def make_declared_groups(call: Call, declarations: Mapping[str, Mapping[str, str]]) -> Groups:
    """Return the groups that a person declared: an expression in symbols by leaf and by the dim's place, as text.

    Raises ValueError if a leaf or a dim does not exist, or the example's sizes do not fit the expressions.
    """
    tensors = call.tensors
    for name, dims in declarations.items():
        if name not in tensors:
            raise ValueError(f"there is no input {name!r}")
        if beyond := [place for place in dims if int(place) >= tensors[name].dim()]:
            raise ValueError(f"{name!r} has no dim {beyond[0]}")
    shapes: dict[str, SymbolicShape] = {
        name: tuple(declarations.get(name, {}).get(str(place), size) for place, size in enumerate(tensor.shape))
        for name, tensor in tensors.items()
    }
    example = solve([(shape, tensors[name].shape) for name, shape in shapes.items()])
    if example is None:
        raise ValueError("the example's sizes do not fit those expressions")
    return Groups(shapes, example, find_reasons(shapes, lambda _: "untried"))


def find_reasons(
    shapes: Mapping[str, SymbolicShape], why: Callable[[tuple[str, int]], Reason]
) -> dict[str, dict[str, Reason]]:
    """Return the reason for each dim that has only one size, by leaf and by the dim's place.

    `why` returns the reason for a leaf and a place.
    """
    return {
        name: {str(place): why((name, place)) for place, dim in enumerate(shape) if isinstance(dim, int)}
        for name, shape in shapes.items()
    }


def make_symbolic_shape(dims: Mapping[tuple[str, int], Linear], name: str, sizes: "list[int]") -> SymbolicShape:
    """Return the shape of the leaf `name`: the expression in `dims` as text or, for a dim without one, its size."""
    return tuple(str(dims[name, place]) if (name, place) in dims else size for place, size in enumerate(sizes))
