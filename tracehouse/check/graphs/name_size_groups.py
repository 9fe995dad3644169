"""Names for size groups: `batch`, `seq`, `height`, `width`, and numbers for the others."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from tracehouse.check.graphs.size_oracle import Expressions, SizeOracle, dims_of_symbols, is_symbol, symbol_of
from tracehouse.check.graphs.size_relations import Dim, Relations
from tracehouse.check.size_groups import Groups, find_reasons, make_symbolic_shape
from tracehouse.contract.dims import SymbolicShape
from tracehouse.contract.input_spec import Reason
from tracehouse.eager.call import Call


def name_size_groups(
    oracle: SizeOracle,
    expressions: Expressions,
    *,
    steps: Mapping[str, int],
    between: Mapping[str, list[int]],
    apart: Sequence[tuple[tuple[str, ...], Call]],
    relations: Relations,
    untried: Collection[Dim],
    may_be_empty: Collection[str],
) -> Groups:
    """Return the groups in the sizes of the example itself, with names that a person understands.

    A dim whose expression does not have the example's size there is left with the one size. `steps` and `between` are
    by symbol, `apart` has calls beside their symbols, `untried` are dims for which there was no time, and
    `may_be_empty` symbols that may be 0.
    """
    tensors = oracle.target.call.tensors
    sizes = {(name, place): size for name, tensor in tensors.items() for place, size in enumerate(tensor.shape)}
    fitting = find_fitting({dim: expressions[dim] for dim in sizes if dim in expressions}, sizes)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    names = _choose_names(fitting, shapes, oracle)
    named = {dim: expression.renamed(names) for dim, expression in fitting.items()}
    symbolic: dict[str, SymbolicShape] = {
        name: make_symbolic_shape(named, name, [*shape]) for name, shape in shapes.items()
    }

    def reason(dim: Dim) -> Reason:
        return "untried" if dim in untried or dim in expressions else "model"

    return Groups(
        symbolic,
        {names[symbol]: sizes[dim] for symbol, dim in dims_of_symbols(fitting).items()},
        find_reasons(symbolic, reason),
        steps={names[symbol]: step for symbol, step in steps.items() if symbol in names and step > 1},
        between={names[symbol]: sizes for symbol, sizes in between.items() if symbol in names},
        apart=[
            (tuple(names[symbol] for symbol in symbols), call) for symbols, call in apart if names.keys() >= {*symbols}
        ],
        agreed=oracle.agreed,
        edges={symbol: edges for symbol, edges in _edges_by_symbol(relations, named).items() if edges},
        may_be_empty=frozenset(names[symbol] for symbol in may_be_empty if symbol in names),
        lengths={leaf: symbol_of(named[dim]) for leaf, dim in oracle.dims_of_lengths.items() if dim in named},
    )


def _edges_by_symbol(relations: Relations, expressions: Expressions) -> dict[str, list[int]]:
    by_symbol: dict[str, list[int]] = {}
    for dim, edges in relations.edges.items():
        if dim in expressions and is_symbol(expressions[dim]):
            known = by_symbol.setdefault(symbol_of(expressions[dim]), [])
            known += [edge for edge in edges if edge not in known]
    return by_symbol


def find_fitting(expressions: Expressions, sizes: Mapping[Dim, int]) -> Expressions:
    """Return the expressions that have the given sizes, where each symbol has one size.

    A symbol of an expression that does not fit is given up, with all expressions that have it.
    """
    values = {symbol: sizes[dim] for symbol, dim in dims_of_symbols(expressions).items()}
    misfits = {
        symbol
        for dim, expression in expressions.items()
        for symbol, _ in expression.terms
        if any(other not in values for other, _ in expression.terms) or expression.at(values) != sizes[dim]
    }
    if not misfits:
        return expressions
    rest = {
        dim: expression
        for dim, expression in expressions.items()
        if not any(symbol in misfits for symbol, _ in expression.terms)
    }
    return find_fitting(rest, sizes)


def _choose_names(
    expressions: Expressions, shapes: Mapping[str, tuple[int, ...]], oracle: SizeOracle
) -> dict[str, str]:
    """Return a name for each symbol: `batch` where it leads most inputs, the usual ones, and numbers for the others."""
    names: dict[str, str] = {}
    leading = Counter(
        symbol_of(expressions[name, 0])
        for name in shapes
        if (name, 0) in expressions and is_symbol(expressions[name, 0])
    )
    with_dims = [name for name, shape in shapes.items() if shape]
    if leading and any(len(shape) > 1 for shape in shapes.values()):
        symbol, count = leading.most_common(1)[0]
        if 2 * count >= len(with_dims):
            names[symbol] = "batch"
    for dim, expression in expressions.items():
        usual = _usual_name(dim, shapes[dim[0]], is_float=oracle.call.tensors[dim[0]].is_floating_point())
        if is_symbol(expression) and usual and symbol_of(expression) not in names and usual not in names.values():
            names[symbol_of(expression)] = usual
    unnamed = [symbol for symbol in dims_of_symbols(expressions) if symbol not in names]
    return {**names, **{symbol: f"n{number}" for number, symbol in enumerate(unnamed)}}


def _usual_name(dim: Dim, shape: Sequence[int], *, is_float: bool) -> str | None:
    """Return what people call the dim of images, of token ids and of sequences of vectors."""
    match len(shape), dim[1], is_float:
        case 4, (2 | 3) as place, True if shape[1] <= min(shape[2:]):
            return "height" if place == 2 else "width"
        case (2, 1, False) | (3, 1, True):
            return "seq"
    return None
