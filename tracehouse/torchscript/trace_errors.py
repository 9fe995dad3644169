"""Trace errors: what torch raises when it cannot trace or save a model becomes a named error with the user's line."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error
from tracehouse.eager.model import Function, LoadedModel
from tracehouse.errors import (
    BackwardHooks,
    CompiledModel,
    ConstantRequiresGrad,
    MixedInput,
    MixedOutput,
    ModuleNotRegistered,
    OutputNotTraced,
    PythonFunctionCalled,
    SharedParameters,
    TraceError,
    TracingNested,
    UnsupportedDict,
    UnsupportedOutput,
    UntraceableModel,
)
from tracehouse.findings.remedies import RETURN_THE_SAME_IN_A_TRACE
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torchscript import torch_check

# Which of our errors it is: a part of torch's message, and the error.
_NAMED: list[tuple[str, type[TraceError]]] = [
    ("Cannot insert a Tensor that requires grad", ConstantRequiresGrad),
    ("TracedModules don't support parameter sharing", SharedParameters),
    ("Modules that have backward hooks", BackwardHooks),
    ("Could not export Python function call", PythonFunctionCalled),
    ("Dictionary inputs to traced functions must have consistent", MixedOutput),
    ("List inputs to traced functions must have consistent", MixedOutput),
    ("Tried to trace", ModuleNotRegistered),
    ("Tracing can't be nested", TracingNested),
    ("Detected that you are using FX to torch.jit.trace a dynamo-optimized function", CompiledModel),
    ("cannot be understood by the tracer, only outputs matching", UnsupportedDict),
    ("of traced region did not have observable data dependence", OutputNotTraced),
    ("Encountering a dict at the output of the tracer", UnsupportedOutput),
    ("Only tensors, lists, tuples of tensors", UnsupportedOutput),
    ("List trace inputs must have elements", UnsupportedOutput),
]
# Remedies that are more exact than the error's own.
_REMEDIES = {
    "Encountering a dict at the output of the tracer": RETURN_THE_SAME_IN_A_TRACE,
    "Only tensors, lists, tuples of tensors": RETURN_THE_SAME_IN_A_TRACE,
    "List trace inputs must have elements": RETURN_THE_SAME_IN_A_TRACE,
}
# Of messages that have no error of their own.
_REMEDIES_OF_OTHERS = [
    (
        "Tensor that doesn't have storage",
        "take gradients with torch.autograd.grad in place of torch.func, or write the gradient with operators: the "
        "tensors of torch.func's transforms cannot be traced",
    ),
]
_REMEDY_FOR_FUNCTION = (
    "write the function as an nn.Module that makes the tensor, or the module that holds it, in __init__; or detach the "
    "tensor"
)
_FUNCTION_NAME = re.compile(r"Could not export Python function call '(.*?)'")


def translate_refusal(error: Exception, model: LoadedModel, calls: Mapping[str, Call]) -> TraceError:
    """Return the error to raise for what torch raised while it traced or saved."""
    if isinstance(error, TraceError):
        return error
    if is_out_of_memory(error):
        return out_of_memory_error(error)
    text = user_lines.full_error_text(error)  # not shortened: torch prints whole values first
    method = torch_check.find_checked_method(error)
    facts = user_lines.error_facts(error) | ({"method": method} if method else {})
    for words, kind in _NAMED:
        if words in text:
            return _named_error(kind, words, text, facts, model, calls)
    remedy = next(({"remedy": remedy} for words, remedy in _REMEDIES_OF_OTHERS if words in text), {})
    return UntraceableModel(
        f"tracing raised {type(error).__name__}: {user_lines.public_error_text(error)}", **facts, **remedy
    )


def _named_error(
    kind: type[TraceError], words: str, text: str, facts: dict[str, Any], model: LoadedModel, calls: Mapping[str, Call]
) -> TraceError:
    # The reason is in one line of the message, among values, stacks and graphs.
    detail = text[text.index(words) :].splitlines()[0].rstrip()
    remedy = {"remedy": _REMEDIES[words]} if words in _REMEDIES else {}
    if kind is MixedOutput and (mixed := next(_mixed_inputs(calls), None)) is not None:
        kind, facts = MixedInput, facts | mixed
    if kind is ConstantRequiresGrad and isinstance(model.module, Function):
        remedy = {"remedy": _REMEDY_FOR_FUNCTION}
    seen = _FACTS_OF_MODEL[kind](model.module, text) if kind in _FACTS_OF_MODEL else {}
    where = _line_of_method(model, calls.get(facts.get("method", "")))
    return kind(f"torch refused: {detail}", **(where | facts | seen | remedy))


def _line_of_method(model: LoadedModel, call: Call | None) -> dict[str, Any]:
    """Return the line of the method's definition, for errors that come from no line of the user's."""
    return (
        {}
        if call is None
        else user_lines.line_facts(user_lines.line_of_function(getattr(model.module, call.function, None)))
    )


def _shared_parameters(module: torch.nn.Module, _: str) -> dict[str, Any]:
    for path, part in module.named_modules():
        names: dict[int, str] = {}
        for name, tensor in [*part._parameters.items(), *part._buffers.items()]:
            if tensor is None:
                continue
            if id(tensor) in names:
                both = [script_graphs.join_path(path, one) for one in (names[id(tensor)], name)]
                return {"names": both, **user_lines.line_facts(user_lines.line_of_attribute(type(part), name))}
            names[id(tensor)] = name
    return {}


def _backward_hooks(module: torch.nn.Module, _: str) -> dict[str, Any]:
    for path, part in module.named_modules():
        for hook in part._backward_hooks.values():
            return {"module": path, **user_lines.line_facts(user_lines.line_of_function(hook))}
    return {}


def _python_function(_: torch.nn.Module, text: str) -> dict[str, Any]:
    name = _FUNCTION_NAME.search(text)
    return {"function": name[1]} if name else {}


# Facts that torch's message lacks: they are read from the model or from the message's stacks.
_FACTS_OF_MODEL: dict[type[TraceError], Callable[[torch.nn.Module, str], dict[str, Any]]] = {
    SharedParameters: _shared_parameters,
    BackwardHooks: _backward_hooks,
    PythonFunctionCalled: _python_function,
}


def _mixed_inputs(calls: Mapping[str, Call]) -> Iterator[dict[str, Any]]:
    for call in calls.values():
        for name, value in call.arguments.items():
            if (path := _find_mixed(value, name)) is not None:
                yield {"method": call.method, "input": path}


def _find_mixed(value: Any, path: str) -> str | None:
    """Return the path of the first list or dict whose tensors and containers are not all of one type."""
    match value:
        case Mapping():
            items = [*value.items()]
        case list() | tuple():
            items = [*enumerate(value)]
        case _:
            return None
    kinds = {_kind(item) for _, item in items} - {None}
    if len(kinds) > 1 and not isinstance(value, tuple):
        return path
    return next((found for key, item in items if (found := _find_mixed(item, f"{path}.{key}")) is not None), None)


def _kind(value: Any) -> Any:
    """Return the type that torch gives a value, or None if it is baked in and not passed."""
    match value:
        case torch.Tensor():
            return "Tensor"
        case Mapping():
            kinds = {_kind(item) for item in value.values()} - {None}
            return ("dict", frozenset(kinds)) if kinds else None
        case list():
            kinds = {_kind(item) for item in value} - {None}
            return ("list", frozenset(kinds)) if kinds else None
        case tuple():
            kinds_in_order = tuple(kind for item in value if (kind := _kind(item)) is not None)
            return ("tuple", kinds_in_order) if kinds_in_order else None
    return None
