"""The disguise: symbolic numbers pass for Python's own where torch's do otherwise, and what follows would be no proof.

torch's floats are expressions of real numbers, whose terms sympy reorders. Its `//` of floats takes the floor of a
quotient, its `round` leaves tens out, its numbers are no `int` in `isinstance`, and their text is a symbol's name.
"""

import ast
import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import sym_node
from torch.fx.experimental.sym_node import SymNode
from torch.nn.modules import rnn

from tracehouse.check.instrumentation.ambient_reads import replace_functions, set_attribute
from tracehouse.check.instrumentation.unrecorded_writes import ON_EACH_ELEMENT
from tracehouse.check.instrumentation.value_reads import RECORDING_FILES
from tracehouse.check.prove.size_arithmetic import PYTHON_FLOOR_DIVISION, PYTHON_OPERATIONS, Operation
from tracehouse.check.prove.symbols import SYMBOLIC, compute, is_fake
from tracehouse.introspection import source_trees, user_lines

PYTHON_TYPES = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
# A statement that only calls one of these shows a text to a person, and gives nothing back.
_SHOWING = {"print", "warn", "debug", "info", "warning", "error", "exception", "critical", "log"}

_TENSOR_TYPE = type(torch.LongTensor)

# Frames of these files stand between the model's code and the function that it calls.
_FOLLOWING_FILES = {*RECORDING_FILES, str(Path(__file__).with_name("size_follower.py"))}

Method = Callable[..., Any]
Stop = Callable[[str], NoReturn]


@contextmanager
def disguise(stop: Stop, note_type_asked: Callable[[torch.Tensor], object]) -> Iterator[None]:
    """Within it, symbolic numbers give what Python's numbers give, to the last bit.

    `stop` ends the run, for the reason that it gets, where nothing can pass for what the model asks for.
    `note_type_asked` gets a tensor that is asked whether it is a `torch.LongTensor` or another such type.
    """
    with ExitStack() as stack:

        def change(owner: Any, name: str, replace: Callable[[Any], Any]) -> None:
            stack.enter_context(set_attribute(owner, name, replace(getattr(owner, name))))

        for name, operation in PYTHON_OPERATIONS.items():
            change(SymNode, f"_{name}", partial(_compute_floats, operation))
        for kind in SYMBOLIC:
            change(kind, "__repr__", _write_value)
            change(kind, "__format__", _format_value)
        for kind in (torch.SymInt, torch.SymFloat):
            change(kind, "__floordiv__", partial(_divide_and_floor, reflected=False))
            change(kind, "__rfloordiv__", partial(_divide_and_floor, reflected=True))
        for name in ("__repr__", "__format__"):
            change(torch.Tensor, name, partial(_write_tensor, stop))
        for name in ON_EACH_ELEMENT:
            change(torch.Tensor, name, partial(_call_on_each_element, stop))
        change(torch.SymInt, "__round__", _round_to_digits)
        # torch's arithmetic of symbols asks most of all, and is no code of the model's.
        stack.enter_context(set_attribute(sym_node, "isinstance", isinstance))
        answer = _answer_as_for_real_ones(note_type_asked, isinstance)
        stack.enter_context(replace_functions({id(isinstance): (builtins, "isinstance", answer)}))
        stack.enter_context(set_attribute(rnn, "int", _int_of_rows))
        yield


def _compute_floats(operation: Operation, original: Method) -> Method:
    def run(*nodes: SymNode) -> Any:
        if not any(node.pytype is float for node in nodes) or all(node.expr.is_number for node in nodes):
            return original(*nodes)
        return compute(operation, [*map(_as_number, nodes)]).node

    return run


def _as_number(node: SymNode) -> Any:
    return torch.SymFloat(node) if node.pytype is float else torch.SymInt(node)


def _divide_and_floor(original: Method, *, reflected: bool) -> Method:
    def run(self: Any, other: Any) -> Any:
        if not any(isinstance(one, float | torch.SymFloat) for one in (self, other)):
            return original(self, other)
        operands = [torch.sym_float(one) for one in (self, other)]
        return compute(PYTHON_FLOOR_DIVISION, operands[::-1] if reflected else operands)

    return run


def _round_to_digits(_: Method) -> Method:
    def run(self: torch.SymInt, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(int(self), digits)

    return run


def _int_of_rows(value: Any) -> Any:
    """Return the `int` of torch's recurrent networks: the number of rows in a packed sequence, for their checks."""
    return value.item() if isinstance(value, torch.Tensor) else int(value)


def _write_value(original: Method) -> Method:
    """Return a `__repr__` that gives the model's code the text of the number, which then has this one value."""

    def run(self: Any) -> str:
        return repr(number_of(self)) if _computes_with_text(sys._getframe(1)) else str(original(self))

    return run


def _format_value(original: Method) -> Method:
    def run(self: Any, form: str) -> str:
        return format(number_of(self), form) if _computes_with_text(sys._getframe(1)) else str(original(self, form))

    return run


def _write_tensor(stop: Stop, original: Method) -> Method:
    """Return a method that gives the text of a tensor, unless it has no values and the model computes with the text."""

    def run(self: torch.Tensor, *args: Any, **kwargs: Any) -> str:
        if is_fake(self) and _computes_with_text(sys._getframe(1)):
            stop("the model makes a text of a tensor's values")
        return str(original(self, *args, **kwargs))

    return run


def _call_on_each_element(stop: Stop, original: Method) -> Method:
    """Return a method that ends the run on a tensor without memory: torch would end the process."""

    def run(self: torch.Tensor, *args: Any) -> Any:
        if is_fake(self):
            stop("a Python function is called on each element, and symbols have none")
        return original(self, *args)

    return run


def number_of(symbolic: Any) -> int | float | bool:
    """Return a symbolic number as the number that it is; from then on, the sizes are those at which it is so."""
    value: int | float | bool = PYTHON_TYPES[type(symbolic)](symbolic)
    return value


def _answer_as_for_real_ones(note_type_asked: Callable[[torch.Tensor], object], original: Method) -> Method:
    """Return an `isinstance` to which symbolic numbers are Python's, and no tensor is fake, if the model's code asks.

    transformers asks whether a tensor is fake, and then leaves reads of values out, which eager does.
    """

    def run(value: Any, kinds: Any) -> bool:  # called a hundred thousand times in a run
        kind = type(value)
        if kind is FakeTensor:
            if _has_tensor_type(kinds):
                note_type_asked(value)
            asks = kinds is FakeTensor or (type(kinds) is tuple and FakeTensor in kinds)
            kinds = _without_fake_tensors(kinds) if asks and _is_user(sys._getframe(1)) else kinds
        answer: bool = original(value, kinds)
        if answer or kind not in PYTHON_TYPES:
            return answer
        return issubclass(PYTHON_TYPES[kind], kinds) and _is_user(sys._getframe(1))

    return run


def _has_tensor_type(kinds: Any) -> bool:
    return type(kinds) is _TENSOR_TYPE or (type(kinds) is tuple and any(map(_has_tensor_type, kinds)))


def _without_fake_tensors(kinds: Any) -> Any:
    return tuple(kind for kind in kinds if kind is not FakeTensor) if type(kinds) is tuple else ()


def _computes_with_text(frame: FrameType) -> bool:
    """Whether the model's code asks for a text, and might do more with it than show it to a person."""
    asking = _find_asking(frame)
    return _is_user(asking) and not source_trees.is_within(
        asking.f_code.co_filename, asking.f_lineno, _find_showing_statements
    )


def _is_user(frame: FrameType) -> bool:
    """Whether the model's code asks."""
    return user_lines.is_user(_find_asking(frame).f_code.co_filename)


def _find_asking(frame: FrameType) -> FrameType:
    """Return the frame that asks: frames that follow the model's calls stand between it and the function it calls.

    So it is where a text is joined of `map(str, sizes)`.
    """
    while frame.f_code.co_filename in _FOLLOWING_FILES and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _find_showing_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield each statement that raises, asserts, prints or logs."""
    for node in ast.walk(tree):
        match node:
            case ast.Raise() | ast.Assert():
                yield node
            case ast.Expr() if source_trees.name_of_call(node.value) in _SHOWING:
                yield node
