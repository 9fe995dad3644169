"""Symbols: sizes that stand for all sizes, and tensors of such sizes that have no values.

torch's own names for these are private; they stand here alone.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._python_dispatch import _disable_current_modes

from tracehouse.check.prove.composite_operators import whole
from tracehouse.check.prove.stopping import stopped_between_operators
from tracehouse.contract.dims import SymbolicShape, parse_dim
from tracehouse.introspection import user_lines

Number = int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
# A symbol's case is that of larger sizes: 0 and 1 broadcast, and are cases of their own.
LEAST = 2


class _Environment(ShapeEnv):
    """Tells at which line each condition was met."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.lines: list[user_lines.Line | None] = []
        self.line: Callable[[], user_lines.Line | None] = lambda: None

    def evaluate_expr(self, *args: Any, **kwargs: Any) -> Any:
        value = super().evaluate_expr(*args, **kwargs)
        if len(self.guards) > len(self.lines):
            line = self.line()
            self.lines += [line] * (len(self.guards) - len(self.lines))
        return value


@dataclass(frozen=True)
class Condition:
    """What was assumed of the symbols, and where."""

    expression: sympy.Basic
    line: user_lines.Line | None


class Symbols:
    """The sizes of one case: `free` ones are symbols whose value is the given one for now, the others are numbers."""

    def __init__(self, sizes: Mapping[str, int], free: Mapping[str, int]) -> None:
        """`free` has the largest size that is wanted of each."""
        self.environment = _Environment(
            specialize_zero_one=False,
            duck_shape=False,
            assume_static_by_default=True,
            allow_scalar_outputs=False,
            allow_dynamic_output_shape_ops=False,
        )
        self.mode = FakeTensorMode(shape_env=self.environment, allow_non_fake_inputs=True)
        self.mode.cache_enabled = False  # of symbols an entry costs more to make than the answer, and fits nothing else
        self.names: dict[sympy.Symbol, str] = {}
        self._sizes: dict[str, Any] = dict(sizes)
        for name, highest in free.items():
            source = ConstantSource(name)
            symbol = self.environment.create_symbol(
                sizes[name], source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None
            )
            self.names[symbol] = name
            size = self.environment.create_symintnode(symbol, hint=sizes[name], source=source)
            torch._check(size >= LEAST)
            torch._check(size <= highest)
            self._sizes[name] = size

    def empty(self, shape: SymbolicShape, like: torch.Tensor) -> torch.Tensor:
        sizes = [self._size(dim) for dim in shape]
        with self.mode:
            return torch.empty(sizes, dtype=like.dtype, device=like.device)

    def fake_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same one each time, of a tensor whose sizes are numbers."""
        return self.mode.from_tensor(tensor, static_shapes=True)

    def _size(self, dim: int | str) -> Any:
        if isinstance(dim, int):
            return dim
        expression = parse_dim(dim)
        size: Any = expression.plus
        for symbol, times in expression.terms:
            size = size + times * self._sizes[symbol]
        return size

    @contextmanager
    def entered(self) -> Iterator[None]:
        with _quiet(), stopped_between_operators(), enable_python_dispatcher(), whole(), self.mode, torch.no_grad():
            yield

    def conditions(self) -> list[Condition]:
        found = self.environment.lines
        return [
            Condition(guard.expr, found[place] if place < len(found) else None)
            for place, guard in enumerate(self.environment.guards)
        ]

    def told_by(self, line: Callable[[], user_lines.Line | None]) -> None:
        """From now on conditions are met where this says."""
        self.environment.line = line

    def told(self, text: str) -> str:
        """With the names of the symbols, for which torch has names of its own."""
        for symbol, name in self.names.items():
            text = re.sub(rf"\b{symbol}\b", name, text)
        return text

    def settled(self) -> dict[str, int]:
        """The symbols that conditions left one size alone."""
        found = {}
        for symbol, name in self.names.items():
            value = self.environment.replace(symbol)
            if value.is_Integer:
                found[name] = int(value)
        return found


@contextmanager
def _quiet() -> Iterator[None]:
    """That an operator refuses its operands is an answer here, and nothing to log."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def expression(number: torch.SymInt | torch.SymFloat | torch.SymBool) -> sympy.Basic:
    return number.node.expr


def are_same(one: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    """Whether they are written alike: nothing is asked of the symbols in them."""
    if isinstance(one, torch.SymInt) and isinstance(other, torch.SymInt):
        return bool(one.node.expr == other.node.expr)
    return type(one) is type(other) and bool(one == other)


def empty_like(tensor: torch.Tensor, sizes: Sequence[int | torch.SymInt]) -> torch.Tensor:
    """Contiguous, and as `new_empty` makes it, for which torch goes a longer way."""
    if not isinstance(tensor, FakeTensor):
        return tensor.new_empty(sizes)
    with in_kernel_invocation_manager(tensor.fake_mode):
        made = torch.empty(sizes, dtype=tensor.dtype, device="meta")
    return FakeTensor(tensor.fake_mode, made, tensor.device)


def is_fake(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, FakeTensor)


@contextmanager
def views_shared() -> Iterator[None]:
    """A view that was made already may be given again: torch does not keep account of views."""
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)):
        yield


@contextmanager
def real() -> Iterator[None]:
    """Operators compute, whatever modes there are."""
    with torch._C._DisablePythonDispatcher(), _disable_current_modes(), torch.no_grad():
        yield
