"""A call: one method of the model and the values it is called with, bound to its parameters' names.

The eager model is called as a person would call it. A traced method takes tensors alone, in the order of the
parameters: everything else that the call was given, or leaves to a default, is baked into it. A scripted one takes all.
"""

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import BoundArguments, Parameter, Signature
from types import MethodType
from typing import Any

import torch

from tracehouse.errors import ArgumentMismatch, TraceMethodNotFound
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.introspection.addresses import without_addresses
from tracehouse.torch_values import script_calls, structure

_NAMES_MAX = 50
_ANNOTATION_MAX_CHARACTERS = 40


@dataclass(frozen=True)
class Call:
    """`method` is its name in the contract, `function` its name in Python; they differ for a bound method alone."""

    method: str
    function: str
    # In the order of the parameters, a LeftOut for each that is left to its default; what `*args` takes is one tuple,
    # what `**kwargs` takes stands under its own names.
    arguments: dict[str, Any]
    by_name: frozenset[str]  # of the arguments, those that were given as keywords
    variadic: str | None  # the name of `*args`
    scripted: bool = False  # of a scripted method: nothing is baked into it

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = {}
        for name, value in self.arguments.items():
            found |= structure.tensors(value, name)
        return found

    def with_tensors(self, tensors: Mapping[str, torch.Tensor]) -> "Call":
        """The same call on other tensors."""
        arguments = {
            name: structure.map_tensors(value, name, lambda path, _: tensors[path])
            for name, value in self.arguments.items()
        }
        return replace(self, arguments=arguments)

    def as_scripted(self) -> "Call":
        """The same call of a method that is compiled as it is written."""
        return replace(self, scripted=True)

    def clone(self) -> "Call":
        """For a callee that may write into its inputs."""
        return self.with_tensors({name: tensor.clone() for name, tensor in self.tensors.items()})

    def run(self, module: torch.nn.Module) -> Any:
        """Call the eager model."""
        args, kwargs = self.split_arguments(self.arguments)
        return _callee(module, self.function)(*args, **kwargs)

    def split_arguments(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Those arguments as this call gives them: by position or by name, as a model's hooks may tell them apart."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, value in arguments.items():
            if isinstance(value, structure.LeftOut):
                continue
            if name in self.by_name:
                kwargs[name] = value
            else:
                args += value if name == self.variadic else [value]
        return args, kwargs

    def run_traced(self, module: torch.nn.Module) -> Any:
        """Call the artifact."""
        schema = getattr(module, self.method).schema
        return script_calls.call_method(_callee(module, self.method), schema, self.artifact_args_by_name)

    @property
    def artifact_args(self) -> tuple[Any, ...]:
        """What the artifact is called with."""
        return tuple(self.artifact_args_by_name.values())

    @property
    def artifact_args_by_name(self) -> dict[str, Any]:
        return {
            name: structure.strip_baked(value, scripted=self.scripted)
            for name, value in self.arguments.items()
            if structure.is_passed_to_artifact(value, scripted=self.scripted)
        }


@dataclass(frozen=True)
class CheckCall:
    """A check input, bound."""

    name: str
    call: Call


def bind(module: torch.nn.Module, method: str, function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Raises TraceMethodNotFound, and ArgumentMismatch with the names that the method knows."""
    callee = _find_method(module, method, function)
    signature = _signature_of(callee, args)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        known = list(signature.parameters)
        unknown = sorted(set(kwargs) - set(known))
        # Python may speak of the one that is missing instead.
        why = f"it knows no {unknown[0]!r}, only {', '.join(known)}" if unknown else str(error)
        raise ArgumentMismatch(
            f"{method}{_format_signature(signature)} cannot be called so: {why}",
            method=method,
            parameters=known,
            unknown=unknown,
            **user_lines.line_facts(user_lines.line_of_function(callee)),
        ) from error
    return Call(method, function, _arguments(bound), frozenset(kwargs), _variadic(bound))


def _format_signature(signature: Signature) -> str:
    """As Python writes it, without annotations that are long."""
    parameters = [
        parameter.replace(annotation=Parameter.empty)
        if len(inspect.formatannotation(parameter.annotation)) > _ANNOTATION_MAX_CHARACTERS
        else parameter
        for parameter in signature.parameters.values()
    ]
    shown = signature.replace(parameters=parameters, return_annotation=Signature.empty)
    return without_addresses(str(shown))


def _arguments(bound: BoundArguments) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            arguments |= bound.arguments.get(name, {})
        elif name in bound.arguments:
            arguments[name] = bound.arguments[name]
        elif parameter.default is not Parameter.empty:
            arguments[name] = structure.LeftOut(parameter.default)
    return arguments


def _variadic(bound: BoundArguments) -> str | None:
    kinds = {name: bound.signature.parameters[name].kind for name in bound.arguments}
    return next((name for name, kind in kinds.items() if kind is Parameter.VAR_POSITIONAL), None)


def bake(module: torch.nn.Module, calls: Mapping[str, Call]) -> None:
    """Let the module's methods take only what is handed over, by position; the rest is as in the calls.

    torch.jit.trace names and passes positional tensors alone.
    """
    if all(_is_plain(call, getattr(module, call.function)) for call in calls.values()):
        return
    within: list[str] = []  # a method that another one calls is called as it always was
    for call in calls.values():
        module.__dict__[call.method] = MethodType(_bake_method(call, getattr(module, call.function), within), module)


def _bake_method(call: Call, original: Callable[..., Any], within: list[str]) -> Callable[..., Any]:
    names = [name for name, value in call.arguments.items() if structure.has_tensors(value)]

    def baked(_: torch.nn.Module, *given: Any, **others: Any) -> Any:
        if within:
            return original(*given, **others)
        values = dict(zip(names, given, strict=True))
        completed = {
            name: structure.fill_in(example, values[name]) if name in values else example
            for name, example in call.arguments.items()
        }
        args, kwargs = call.split_arguments(completed)
        within.append(call.method)
        try:
            return original(*args, **kwargs)
        finally:
            within.pop()

    # torch reads the arguments' names off it, the first being the module itself.
    taken = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    baked.__signature__ = Signature([Parameter("self", Parameter.POSITIONAL_ONLY), *taken])  # type: ignore[attr-defined]
    return baked


def _is_plain(call: Call, callee: Callable[..., Any]) -> bool:
    """Whether the method can be traced as it stands: called by position, with tensors alone.

    What is left out is no hindrance: nobody gives it. Of a compiled function torch does not find the names.
    """
    by_position = not call.by_name and call.variadic is None and call.method == call.function
    given = [value for value in call.arguments.values() if not isinstance(value, structure.LeftOut)]
    return by_position and not _is_compiled(callee) and all(structure.has_only_tensors(value) for value in given)


def _find_method(module: torch.nn.Module, method: str, function: str) -> Callable[..., Any]:
    found: Any = getattr(module, function, None)
    if function == "forward":
        missing = getattr(found, "__func__", None) is torch.nn.Module.forward
    else:
        missing = not callable(found) or isinstance(found, torch.nn.Module) or hasattr(torch.nn.Module, function)
    if isinstance(module, torch.jit.ScriptModule):
        missing = function not in _methods(module)
    if missing or found is None:
        methods = _methods(module)
        there = ", ".join(methods) or "none"
        raise TraceMethodNotFound(f"the model has no method {method!r}; it has {there}", method=method, methods=methods)
    return found  # type: ignore[no-any-return]


def _methods(module: torch.nn.Module) -> list[str]:
    if isinstance(module, torch.jit.ScriptModule):
        return [name for name in script_graphs.methods(module) if not name.startswith("_")][:_NAMES_MAX]
    names = [name for name in dir(type(module)) if not name.startswith("_") and not hasattr(torch.nn.Module, name)]
    own_forward = ["forward"] if getattr(module.forward, "__func__", None) is not torch.nn.Module.forward else []
    return (own_forward + [name for name in names if callable(getattr(type(module), name, None))])[:_NAMES_MAX]


def _signature_of(callee: Callable[..., Any], args: Sequence[Any]) -> Signature:
    if _is_compiled(callee):
        return _signature_of_schema(callee.schema)  # type: ignore[attr-defined]
    try:
        return inspect.signature(callee)
    except (TypeError, ValueError):  # a builtin, such as torch.relu
        return Signature([Parameter(f"input{index}", Parameter.POSITIONAL_OR_KEYWORD) for index in range(len(args))])


def _is_compiled(callee: Callable[..., Any]) -> bool:
    return isinstance(callee, torch._C.ScriptMethod | torch.jit.ScriptFunction)


def _signature_of_schema(schema: Any) -> Signature:
    """As Python would have it; a method's own first argument is the module."""
    parameters = []
    for index, argument in enumerate(one for one in schema.arguments if one.name != "self"):
        name: str = argument.name
        is_python = name.isidentifier() and not keyword.iskeyword(name)
        parameters.append(
            Parameter(
                name if is_python else f"input{index}",
                Parameter.KEYWORD_ONLY if argument.kwarg_only else Parameter.POSITIONAL_OR_KEYWORD,
                default=argument.default_value if argument.has_default_value() else Parameter.empty,
            )
        )
    return Signature(parameters)


def _callee(module: torch.nn.Module, name: str) -> Callable[..., Any]:
    # forward is called through the module, for its hooks.
    return module if name == "forward" else getattr(module, name)
