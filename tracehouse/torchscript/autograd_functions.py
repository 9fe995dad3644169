"""Custom autograd functions: while a model is traced, the operators of their `forward` are recorded in their place.

torch's tracer records a call of a `torch.autograd.Function` as one node that calls Python, and no archive can hold it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import currentframe
from types import new_class
from typing import Any

import torch
from torch.autograd.function import _is_setup_context_defined, _SingleLevelFunction

from tracehouse.introspection import user_lines

# torch's types leave out what is used of these two.
_C: Any = torch._C
_Base: Any = _SingleLevelFunction
_TracingState = Any
_FunctionClass = Any  # a subclass of torch.autograd.Function
_NAME_MAX_CHARACTERS = 200


@dataclass(frozen=True)
class InlinedFunction:
    """A custom autograd function whose `forward` was recorded, and the first line that called it."""

    name: str
    line: user_lines.Line | None


@contextmanager
def inline_autograd_functions(inlined: dict[str, InlinedFunction]) -> Iterator[None]:
    """Inside, let a trace record what `forward` computes. Add each function that was recorded to `inlined`, by name.

    torch still applies the function, with its own `ctx`, so a gradient that the model itself takes goes through
    `backward`. Only the tracer looks away meanwhile, and back again while `forward` runs. Calls outside of a trace stay
    as they are.
    """

    def apply(function: _FunctionClass, *args: Any, **kwargs: Any) -> Any:
        tracing = _C._get_tracing_state()
        if tracing is None:
            return super(_Base, function).apply(*args, **kwargs)
        name = user_lines.shorten(user_lines.clean_text(function.__qualname__), _NAME_MAX_CHARACTERS)
        if name not in inlined:
            inlined[name] = InlinedFunction(name, user_lines.line_of_frame(currentframe()))
        return _apply_in_trace(function, tracing, args, kwargs)

    # Not `Function.apply`, which models store (`swish = Swish.apply`). It calls this method of its base class.
    _Base.apply = classmethod(apply)
    try:
        yield
    finally:
        del _Base.apply


def _apply_in_trace(
    function: _FunctionClass, tracing: _TracingState, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Apply the function unseen by the tracer, except for its `forward`, and return its outputs."""
    returned: list[Any] = []

    def forward(*given: Any, **keywords: Any) -> Any:
        returned.append(_call_in(tracing, function.forward, *given, **keywords))
        return returned[0]

    def setup_context(*given: Any) -> Any:
        return _call_in(tracing, function.setup_context, *given)

    replaced: dict[str, Any] = {"forward": staticmethod(forward)}
    # What it computes is needed only if the model itself takes gradients. torch.vmap gives it tensors that no trace
    # can have.
    if torch.is_grad_enabled() and _is_setup_context_defined(function.setup_context):
        replaced["setup_context"] = staticmethod(setup_context)
    recorded = new_class(function.__name__, (function,), exec_body=lambda members: members.update(replaced))
    outputs = _call_in(None, super(_Base, recorded).apply, *args, **kwargs)
    for was, now in zip(_as_tuple(returned[0]), _as_tuple(outputs), strict=True):
        # torch makes a view of an input that is returned as it is, and the tracer has not seen that.
        if isinstance(was, torch.Tensor) and now is not was:
            _C._set_value_trace(now, _C._get_value_trace(was))
    return outputs


def _call_in(tracing: _TracingState | None, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what `call` returns if this trace records it, or none if `tracing` is None."""
    before = _C._get_tracing_state()
    _C._set_tracing_state(tracing)
    try:
        return call(*args, **kwargs)
    finally:
        _C._set_tracing_state(before)


def _as_tuple(outputs: Any) -> tuple[Any, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)
