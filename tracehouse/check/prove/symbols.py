"""Symbols: sizes that stand for all sizes, and tensors of such sizes that have no values ("fake" tensors in torch).

torch keeps most of what this needs private, so those names are used here and nowhere else.
"""

import logging
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np
import sympy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._sympy.functions import FloorDiv

from tracehouse.check.prove.composite_operators import keep_composite_operators
from tracehouse.check.prove.condition_bounds import decide
from tracehouse.check.prove.known_arithmetic import remember_arithmetic
from tracehouse.check.prove.size_arithmetic import CannotEvaluate, Computation, Operation
from tracehouse.check.prove.stopping import stop_between_operators
from tracehouse.check.prove.unprovable import FindLine, Unprovable
from tracehouse.contract.dims import SymbolicShape, parse_dim
from tracehouse.introspection import user_lines

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
# A case begins with a symbol at sizes from here on. Sizes 0 and 1 broadcast, so a run at one of them shows little of
# the others.
LEAST = 2
# A symbol stands for the sizes from here on. That 1 goes another way is a condition of the case, where it does so.
_SMALLEST = 1
# A size that follows from values is one of these, or LEAST or more: then it is a symbol.
SmallDataSizes = Sequence[int | None]
# A storage is used by its tensor, and by the object of Python's through which we look at it.
_USES_OF_OWN_STORAGE = 2
# Of a ShapeEnv: dims of size 0 or 1 get symbols as well, and two dims of one size get two.
ENVIRONMENT_SETTINGS: dict[str, Any] = {"specialize_zero_one": False, "duck_shape": False}


class Environment(ShapeEnv):
    """torch's conditions on symbols, each with the line at which it was met."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.lines: list[user_lines.Line | None] = []
        self.bounds: list[sympy.Basic] = []  # of the symbols that `bound` bounds
        self.find_line: FindLine = lambda: None
        # How each float was computed that is a symbol. sympy knows nothing of it, and so reorders no operations.
        self.computations: dict[sympy.Symbol, Computation] = {}
        self._floats: dict[tuple[str, tuple[sympy.Basic, ...]], torch.SymFloat] = {}
        self.data_sizes: dict[sympy.Symbol, Any] = {}  # each with the largest that it may be
        self.equations: dict[sympy.Basic, user_lines.Line | None] = {}  # conditions from which torch concludes nothing

    def bound(self, symbol: sympy.Symbol, highest: int) -> None:
        """Let the symbol stand for sizes from 1 to `highest`. It is quicker than conditions that say the same."""
        self.constrain_symbol_range(symbol, _SMALLEST, highest)
        # sympy takes each symbol for positive, but 0 is a size too.
        self.bounds += [sympy.Ge(symbol, _SMALLEST, evaluate=False), sympy.Le(symbol, highest)]

    def make_data_size(self, largest: Any) -> Any:
        """Return a new size that follows from values, from LEAST to `largest`, of which nothing more is known."""
        bound = int(self.bound_sympy(expression_of(largest)).upper) if isinstance(largest, torch.SymInt) else largest
        source = ConstantSource(f"data_size{len(self.data_sizes)}")
        symbol = self.create_symbol(LEAST, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
        self.data_sizes[symbol] = largest
        self.constrain_symbol_range(symbol, LEAST, max(LEAST, bound))
        return self.create_symintnode(symbol, hint=LEAST, source=source)

    def compute(self, operation: Operation, operands: Sequence[Any]) -> Any:
        """Return the operation's result as a symbolic float that no other operation gives. Raises Unprovable."""
        expressions = tuple(map(expression_or_number, operands))
        known = self._floats.get((operation.name, expressions))
        if known is not None:
            return known
        result = _compute_now(operation, operands)
        if not math.isfinite(result):
            raise Unprovable("a number computed from sizes is not finite", self.find_line())
        source = ConstantSource(f"float{len(self.computations)}")
        symbol = self.create_symbol(
            result, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None, positive=None
        )
        self.computations[symbol] = Computation(operation, expressions)
        number: Any = self.create_symfloatnode(symbol, hint=result, source=source)
        self._floats[operation.name, expressions] = number
        return number

    def evaluate_expr(self, orig_expr: Any, *args: Any, **kwargs: Any) -> Any:
        decided = self._decide_by_largest(orig_expr) if self.data_sizes else None
        if decided is not None:
            return decided
        value = super().evaluate_expr(orig_expr, *args, **kwargs)
        if len(self.guards) > len(self.lines):
            line = self.find_line()
            self.lines += [line] * (len(self.guards) - len(self.lines))
        return value

    def _decide_by_largest(self, condition: Any) -> bool | None:
        """Return whether one size is less than another one, where it is so up to the largest that follows from values.

        torch takes that for a number, and not for the sizes from which it follows. None where it decides nothing.
        """
        if not isinstance(condition, sympy.Lt | sympy.Le | sympy.Gt | sympy.Ge):
            return None
        low = high = sympy.expand(condition.args[0] - condition.args[1])
        for symbol, largest in self.data_sizes.items():
            times = high.coeff(symbol)
            if not times.is_Integer or not isinstance(largest, torch.SymInt):
                continue
            most = expression_of(largest)
            at_low, at_high = (LEAST, most) if times > 0 else (most, LEAST)
            low, high = sympy.expand(low.subs(symbol, at_low)), sympy.expand(high.subs(symbol, at_high))
        difference, bounds = sympy.Dummy(), (self.bound_sympy(low).lower, self.bound_sympy(high).upper)
        return decide(condition.func(difference, 0), {difference: bounds}.get)


@dataclass(frozen=True)
class Condition:
    """What a run assumed of the symbols, and the line at which it did."""

    expression: sympy.Basic
    line: user_lines.Line | None


class Symbols:
    """The sizes of one case: the free ones are symbols, which have the given sizes for now; the others are numbers."""

    def __init__(self, sizes: Mapping[str, int], free: Mapping[str, int], small: SmallDataSizes = ()) -> None:
        """`sizes` has a size for every name, and `free` the largest wanted size of each name that is a symbol.

        `small` says of the sizes that follow from values, in the order in which they are met, which are 0 or 1.
        """
        self._small = small
        self.data_sizes = 0  # how many sizes that follow from values were met
        self.environment = Environment(
            **ENVIRONMENT_SETTINGS,
            assume_static_by_default=True,
            allow_scalar_outputs=False,
            allow_dynamic_output_shape_ops=False,
        )
        self.mode = fake_tensor_mode(self.environment)
        self.names: dict[sympy.Symbol, str] = {}
        self.computations = self.environment.computations
        # By id of a real tensor: the tensor, which must live as long, and the one without values.
        self._fakes: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        # By storage of real tensors: a tensor without values that fills it, and those that only torch knows.
        self._whole_storages: dict[int | None, torch.Tensor] = {}
        self._storages_of_torch: set[int | None] = set()
        self._sizes: dict[str, Any] = dict(sizes)
        for name, highest in free.items():
            source = ConstantSource(name)
            symbol = self.environment.create_symbol(
                sizes[name], source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None
            )
            self.names[symbol] = name
            size = self.environment.create_symintnode(symbol, hint=sizes[name], source=source)
            self.environment.bound(symbol, highest)
            self._sizes[name] = size

    def empty(self, shape: SymbolicShape, like: torch.Tensor) -> torch.Tensor:
        """Return a tensor without values of this shape, with the datatype and the device of `like`."""
        sizes = [self._size(dim) for dim in shape]
        with self.mode:
            return torch.empty(sizes, dtype=like.dtype, device=like.device)

    def fake_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor without values for a real one, whose sizes stay numbers; each time the same one."""
        known = self._fakes.get(id(tensor))
        if known is None:
            known = self._fakes[id(tensor)] = tensor, self._make_fake(tensor)
        return known[1]

    def _make_fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a new tensor without values. It shares its memory with those of real tensors that share theirs."""
        storage = tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None
        whole = self._whole_storages.get(storage)
        if whole is not None and _is_plain(tensor) and whole.dtype is tensor.dtype:
            return view_of_layout(whole, tensor.shape, tensor.stride(), tensor.storage_offset())
        if whole is not None:
            raise Unprovable("a tensor shares its memory with one of another datatype", self.environment.find_line())
        # torch's way takes several times as long: it describes the tensor in full first.
        if storage not in self._storages_of_torch and _is_plain(tensor) and _has_its_own_storage(tensor):
            fake = empty_of_layout(self.mode, tensor.shape, None, tensor.dtype, tensor.device)
            fake.requires_grad_(tensor.requires_grad)
            self._whole_storages[storage] = fake
            return fake
        self._storages_of_torch.add(storage)
        return self.mode.from_tensor(tensor, static_shapes=True)

    def _size(self, dim: int | str) -> Any:
        if isinstance(dim, int):
            return dim
        expression = parse_dim(dim)
        size: Any = expression.plus
        for symbol, times in expression.terms:
            size = size + times * self._sizes[symbol]
        return size // expression.over if expression.is_rounded else size

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Within it, operators run on tensors without values."""
        with _silence_refusals(), remember_arithmetic(self.environment), run_without_values(self.mode):
            yield

    def conditions(self) -> list[Condition]:
        """Return the conditions on the symbols that were met so far, in their order."""
        lines = self.environment.lines
        guards = [
            Condition(guard.expr, lines[place] if place < len(lines) else None)
            for place, guard in enumerate(self.environment.guards)
        ]
        bounds = [Condition(bound, None) for bound in self.environment.bounds]
        return [*bounds, *guards, *(Condition(*one) for one in self.environment.equations.items())]

    def make_data_size(self, largest: Any) -> Any:
        """Return a size that follows from values, and is at most `largest`."""
        small = self._small[self.data_sizes] if self.data_sizes < len(self._small) else None
        self.data_sizes += 1
        return self.environment.make_data_size(largest) if small is None else small

    def largest_of(self, data_size: sympy.Symbol) -> Any:
        """Return the largest that a size may be that follows from values. Raises KeyError for another symbol."""
        return self.environment.data_sizes[data_size]

    def find_condition_on_data(self) -> Condition | None:
        """Return the first condition on a size that follows from values; None if there is none."""
        return next((one for one in self.conditions() if self.follows_data(one.expression)), None)

    def follows_data(self, expression: sympy.Basic) -> bool:
        """Whether a size that follows from values is a part of the expression."""
        return any(
            symbol in self.environment.data_sizes
            or (symbol in self.computations and any(map(self.follows_data, self.computations[symbol].operands)))
            for symbol in expression.free_symbols
        )

    def find_lines_with(self, find_line: FindLine) -> None:
        """From now on, `find_line` returns the line at which a condition is met."""
        self.environment.find_line = find_line

    def write_names(self, text: str) -> str:
        """Return the text with our names in place of those that torch gave the symbols, and with floats written out."""
        for symbol, computation in reversed(self.computations.items()):
            written = f"{computation.operation.name}({', '.join(map(str, computation.operands))})"
            text = re.sub(rf"\b{symbol}\b", written, text)
        for symbol, name in self.names.items():
            text = re.sub(rf"\b{symbol}\b", name, text)
        return text

    def single_sizes(self) -> dict[str, int]:
        """Return the symbols to which the conditions leave only one size, and that size."""
        single = {}
        for symbol, name in self.names.items():
            value = self.environment.replace(symbol)
            if value.is_Integer:
                single[name] = int(value)
        return single


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor is nothing but values on the CPU, with sizes and strides."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg())
    )


def _has_its_own_storage(tensor: torch.Tensor) -> bool:
    """Whether the tensor is laid out as a new one, and fills its storage, which no other tensor has now.

    A stride of a dim of size 1 counts too: torch goes by it where a kernel chooses how its result lies in memory.
    """
    storage = tensor.untyped_storage()
    return (
        tensor.stride() == _strides_of_new(tensor.shape)
        and tensor.storage_offset() == 0
        and storage.nbytes() // tensor.element_size() == tensor.numel()
        and torch._C._storage_Use_Count(storage._cdata) <= _USES_OF_OWN_STORAGE
    )


def _strides_of_new(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a new contiguous tensor: a dim without elements counts as one of size 1."""
    return tuple(accumulate((max(1, size) for size in sizes[:0:-1]), mul, initial=1))[: len(sizes)][::-1]


def fake_tensor_mode(environment: ShapeEnv) -> FakeTensorMode:
    """Return a mode whose tensors have no values, and whose symbolic sizes belong to this environment."""
    mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    # With symbols, making an entry of torch's cache costs more than the answer, and no later call fits the entry.
    mode.cache_enabled = False
    return mode


@contextmanager
def run_without_values(mode: FakeTensorMode) -> Iterator[None]:
    """Within it, operators run on the mode's tensors, without gradients, and an alarm waits for the next operator."""
    with stop_between_operators(), enable_python_dispatcher(), keep_composite_operators(), mode, torch.no_grad():
        yield


def expression_or_number(number: Any) -> sympy.Basic:
    return expression_of(number) if isinstance(number, SYMBOLIC) else sympy.sympify(number)


def value_now(number: Any) -> int | float:
    """Return the value that a symbolic number has at the sizes at which the case began."""
    value: int | float = number.node.hint if isinstance(number, SYMBOLIC) else number
    return value


@contextmanager
def _silence_refusals() -> Iterator[None]:
    """Within it, torch logs no operator that refuses its operands: here a refusal is an answer."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def compute(operation: Operation, operands: Sequence[Any]) -> Any:
    """Return the operation's result: a float, or a symbolic one where an operand is symbolic. Raises Unprovable."""
    symbolic = next((operand for operand in operands if isinstance(operand, SYMBOLIC)), None)
    return (
        _compute_now(operation, operands) if symbolic is None else symbolic.node.shape_env.compute(operation, operands)
    )


def _compute_now(operation: Operation, operands: Sequence[Any]) -> float:
    """Return the result at the sizes at which the case began. Raises Unprovable where there is none."""
    try:
        with compute_for_real():
            return float(operation.compute(*(np.asarray(value_now(operand)) for operand in operands)))
    except CannotEvaluate as error:
        raise Unprovable(f"a number computed from sizes has no value: {error}") from error


def has_bounds(number: torch.SymInt, lowest: int, highest: int) -> bool:
    """Whether a symbolic integer lies between both; adds the conditions for it where not all sizes satisfy them."""
    bounds = number.node.shape_env.bound_sympy(number.node.expr)
    if bounds.lower >= lowest and bounds.upper <= highest:
        return True
    return bool(number >= lowest) and bool(number <= highest)


def expression_of(number: torch.SymInt | torch.SymFloat | torch.SymBool) -> sympy.Basic:
    """Return the expression in symbols that a symbolic number is."""
    return number.node.expr


def have_same_expression(one: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    """Whether two sizes are the same expression. Unlike `==`, this adds no condition on the symbols."""
    if isinstance(one, torch.SymInt) and isinstance(other, torch.SymInt):
        return bool(one.node.expr == other.node.expr) or _factors_of(one.node.expr) == _factors_of(other.node.expr)
    return type(one) is type(other) and bool(one == other)


def find_ratio(one: int | torch.SymInt, other: int | torch.SymInt) -> Fraction | None:
    """Return how many times as large one size is as another one; None if that is not the same at all sizes."""
    (number, factors), (divisor, other_factors) = (_factors_of(expression_or_number(size)) for size in (one, other))
    return Fraction(number, divisor) if divisor and factors == other_factors else None


@lru_cache(2**14)
def _factors_of(expression: sympy.Basic) -> tuple[int, frozenset[tuple[sympy.Basic, int]]]:
    """Return the number and the other factors, each with its exponent, of which the expression is the product.

    sympy multiplies numbers into sums: `4*(n + 1)*(m + 1)` may be `(4*n + 4)*(m + 1)`, which is no equal expression.
    """
    number, factors = 1, Counter[sympy.Basic]()
    for factor in sympy.Mul.make_args(expression):
        base, exponent = factor.as_base_exp()
        content, rest = base.primitive()
        if not (content.is_Integer and exponent.is_Integer and exponent > 0):
            return 1, frozenset({(expression, 1)})
        number *= int(content) ** int(exponent)
        if rest != 1:
            factors[rest] += int(exponent)
    return number, frozenset(factors.items())


def are_equal_sizes(one: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    """Whether two sizes are equal; if they are now and need not be, that is a condition.

    torch concludes nothing from it: unlike `==`, it takes no time where the expressions are long.
    """
    if have_same_expression(one, other):
        return True
    if value_now(one) != value_now(other):
        return False
    environment = next(size for size in (one, other) if isinstance(size, torch.SymInt)).node.shape_env
    equation = sympy.Eq(expression_or_number(one), expression_or_number(other))
    if equation is not sympy.true:
        environment.equations.setdefault(equation, environment.find_line())
    return True


def are_equal_computed_sizes(one: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    """Whether two sizes are equal, if divisions gave both, as behind convolutions with strides; that is a condition.

    torch solves no equation of such sizes, and takes milliseconds to find that out.
    """
    return _is_computed(one) and _is_computed(other) and are_equal_sizes(one, other)


def is_quotient(size: int | torch.SymInt) -> bool:
    """Whether a size is the result of a division that rounds down."""
    return isinstance(size, torch.SymInt) and isinstance(size.node.expr, FloorDiv)


def may_become_one(size: Any) -> bool:
    """Whether a size that is computed from symbols is 1 at some sizes of these, as behind a division."""
    if not isinstance(size, torch.SymInt):
        return False
    return not size.node.expr.is_Symbol and bool(size.node.shape_env.bound_sympy(size.node.expr).lower < LEAST)


def assume_not_one(size: Any) -> bool:
    """Whether a size is not a symbol that is 1 now; that it is not 1 is a condition then."""
    return not (isinstance(size, torch.SymInt) and size.node.expr.is_Symbol) or bool(size >= LEAST)


def _is_computed(size: int | torch.SymInt) -> bool:
    return isinstance(size, torch.SymInt) and size.node.expr.has(sympy.Function)


def empty_like(
    tensor: torch.Tensor,
    sizes: Sequence[int | torch.SymInt],
    strides: Sequence[int | torch.SymInt] | None = None,
) -> torch.Tensor:
    """Return a tensor of these sizes and strides, with the datatype and the device of `tensor`.

    Without strides, it is contiguous. It is what `tensor.new_empty(sizes)` and `tensor.new_empty_strided(sizes,
    strides)` give, without the longer way that torch goes for it.
    """
    if isinstance(tensor, FakeTensor):
        return empty_of_layout(tensor.fake_mode, sizes, strides, tensor.dtype, tensor.device)
    return tensor.new_empty(sizes) if strides is None else tensor.new_empty_strided(sizes, strides)


def empty_of_layout(
    mode: FakeTensorMode,
    sizes: Sequence[int | torch.SymInt],
    strides: Sequence[int | torch.SymInt] | None,
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    """Return a tensor without values of this layout; without strides, a contiguous one."""
    with in_kernel_invocation_manager(mode):
        if strides is None:
            without_values = torch.empty(sizes, dtype=dtype, device="meta")
        else:
            without_values = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
    return FakeTensor(mode, without_values, device)


def view_of_layout(
    tensor: torch.Tensor,
    sizes: Sequence[int | torch.SymInt],
    strides: Sequence[int | torch.SymInt],
    offset: int | torch.SymInt,
) -> torch.Tensor:
    """Return a tensor without values of this layout in the memory of `tensor`, which has no values either."""
    assert isinstance(tensor, FakeTensor)
    with in_kernel_invocation_manager(tensor.fake_mode):
        without_values = torch.as_strided(tensor, sizes, strides, offset)
    return FakeTensor(tensor.fake_mode, without_values, tensor.device)


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether the tensor has no values."""
    return type(tensor) is FakeTensor or isinstance(tensor, FakeTensor)


def has_only_a_layout(tensor: torch.Tensor) -> bool:
    """Whether the tensor is nothing but sizes and strides: torch noted no values for it, and no operation."""
    return (
        isinstance(tensor, FakeTensor)
        and tensor.constant is None
        and tensor.layout is torch.strided
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


@contextmanager
def share_views() -> Iterator[None]:
    """Within it, an operator may return a view that it returned before: torch does not keep track of views."""
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)):
        yield


@contextmanager
def compute_for_real() -> Iterator[None]:
    """Within it, operators compute real values, whatever dispatch modes are active."""
    with torch._C._DisablePythonDispatcher(), _disable_current_modes(), torch.no_grad():
        yield
