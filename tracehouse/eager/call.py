"""A call: one method of the model, and the arguments for it under its parameters' names.

The eager model gets every argument, as a person would pass it. A traced method takes only tensors, in the order of the
parameters; all other arguments and the defaults are baked into it. A scripted method takes all arguments.
"""

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import BoundArguments, Parameter, Signature
from types import MethodType
from typing import Any

import torch

from tracehouse.contract.key_orders import KEYWORDS, KeyOrder
from tracehouse.contract.structure import Structure, is_traced_as_it_is
from tracehouse.errors import ArgumentMismatch, TraceMethodNotFound
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.introspection.addresses import without_addresses
from tracehouse.torch_values import returned, script_calls, structure

_NAMES_MAX = 50
_ANNOTATION_MAX_CHARACTERS = 40


@dataclass(frozen=True)
class Call:
    """One method and its arguments.

    `method` is the method's name in the contract, `function` its name in Python. They differ only if the entrypoint is
    a bound method: the contract calls it `forward`.
    """

    method: str
    function: str
    # In the order of the parameters. A LeftOut stands for an argument that is left to its default. The values of
    # `*args` are one tuple; those of `**kwargs` stand under their own names.
    arguments: dict[str, Any]
    by_name: frozenset[str]  # the names of the arguments that were passed as keywords
    variadic: str | None  # the name of `*args`
    scripted: bool = False  # the method is compiled as it is written: nothing is baked in
    keywords: tuple[str, ...] = ()  # the names of the arguments that `**kwargs` takes
    returns: Structure | None = None  # how what the model returns on the example nests, once that is known
    keeps_tensors: bool = False  # the traced method returns the tensors alone; the rest is in `returns`
    copy_tensor: Callable[[torch.Tensor], torch.Tensor] = torch.clone  # makes the copies that a model is called with

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """All tensors among the arguments, by their paths (`x`, `pair.0`)."""
        found: dict[str, torch.Tensor] = {}
        for name, value in self.arguments.items():
            found |= structure.tensors(value, name)
        return found

    @property
    def byte_size(self) -> int:
        """The bytes of all tensors together."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def with_tensors(self, tensors: Mapping[str, torch.Tensor]) -> "Call":
        """Return the same call with other tensors, by path. Raises KeyError if one is missing."""
        arguments = {
            name: structure.map_tensors(value, name, lambda path, _: tensors[path])
            for name, value in self.arguments.items()
        }
        return replace(self, arguments=arguments)

    def with_key_order(self, order: KeyOrder) -> "Call":
        """Return the same call with the keys of one dict in this order. A default that is reordered is passed."""
        if order.path == KEYWORDS:
            others = {name: value for name, value in self.arguments.items() if name not in order.keys}
            return replace(self, arguments=others | {name: self.arguments[name] for name in order.keys})
        owner = next(name for name in self.arguments if f"{order.path}.".startswith(f"{name}."))
        value = self.arguments[owner]
        is_default = isinstance(value, structure.LeftOut)
        changed = structure.reorder_keys(value.default if is_default else value, owner, order.path, order.keys)
        by_name = self.by_name | {owner} if is_default else self.by_name
        return replace(self, arguments={**self.arguments, owner: changed}, by_name=by_name)

    def as_scripted(self) -> "Call":
        """Return the same call of a method that is compiled as it is written."""
        return replace(self, scripted=True)

    def returning(self, returns: Structure, *, strict: bool) -> "Call":
        """Return the same call of a method that returns such values; `strict` is the tracer's."""
        keeps_tensors = not self.scripted and not is_traced_as_it_is(returns, strict=strict)
        return replace(self, returns=returns, keeps_tensors=keeps_tensors)

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Call":
        """Return the same call with what `change` makes of each tensor."""
        return self.with_tensors({name: change(tensor) for name, tensor in self.tensors.items()})

    def copied_by(self, copy_tensor: Callable[[torch.Tensor], torch.Tensor]) -> "Call":
        """Return the same call, but a model gets what `copy_tensor` makes of each tensor, such as other strides."""
        return replace(self, copy_tensor=copy_tensor)

    def clone(self) -> "Call":
        """Return the call with copies of its tensors, for a model that may write into its inputs."""
        return self.changed(self.copy_tensor)

    def run(self, module: torch.nn.Module) -> Any:
        """Call the eager model and return its outputs. Raises whatever the model raises."""
        args, kwargs = self.split_arguments(self.arguments)
        return returned.open_containers(_callee(module, self.function)(*args, **kwargs))

    def split_arguments(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Split arguments into positional and keyword ones as this call does, because a model's hooks may see which."""
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
        """Call the artifact and return its outputs, with the constants. Raises whatever the artifact raises."""
        schema = getattr(module, self.method).schema
        outputs = script_calls.call_method(_callee(module, self.method), schema, self.artifact_args_by_name)
        return self.restore_outputs(outputs)

    def restore_outputs(self, outputs: Any) -> Any:
        """Return what the artifact returned, nested as what the model returns on the example, with its constants."""
        opened = returned.open_containers(outputs)
        return opened if self.returns is None else returned.restore(self.returns, opened)

    @property
    def artifact_args(self) -> tuple[Any, ...]:
        """The artifact's positional arguments."""
        return tuple(self.artifact_args_by_name.values())

    @property
    def artifact_args_by_name(self) -> dict[str, Any]:
        """The artifact's arguments by their parameters' names, without what is baked in."""
        return {
            name: structure.strip_baked(value, scripted=self.scripted)
            for name, value in self.arguments.items()
            if structure.is_passed_to_artifact(value, scripted=self.scripted)
        }


@dataclass(frozen=True)
class CheckCall:
    """A check input as a call; `name` is its place in the request, such as `check_inputs[0]`."""

    name: str
    call: Call


def bind(module: torch.nn.Module, method: str, function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Return the call of this method with these arguments.

    `method` is the name in the contract, `function` the name in Python. Raises TraceMethodNotFound, and
    ArgumentMismatch with the names of the method's parameters.
    """
    callee = _find_method(module, method, function)
    signature = _signature_of(callee, args)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        known = list(signature.parameters)
        unknown = sorted(set(kwargs) - set(known))
        # Python may complain of a missing argument first; a misspelt name is more useful to see.
        why = f"it has no parameter {unknown[0]!r}, only {', '.join(known)}" if unknown else str(error)
        raise ArgumentMismatch(
            f"{method}{_format_signature(signature)} does not take these inputs: {why}",
            method=method,
            parameters=known,
            unknown=unknown,
            **user_lines.line_facts(user_lines.line_of_function(callee)),
        ) from error
    return Call(
        method, function, _arguments(bound), frozenset(kwargs), _variadic(bound), keywords=_variadic_keywords(bound)
    )


def _format_signature(signature: Signature) -> str:
    """Return the signature as Python writes it, without long annotations."""
    parameters = [
        parameter.replace(annotation=Parameter.empty)
        if len(inspect.formatannotation(parameter.annotation)) > _ANNOTATION_MAX_CHARACTERS
        else parameter
        for parameter in signature.parameters.values()
    ]
    shortened = signature.replace(parameters=parameters, return_annotation=Signature.empty)
    return without_addresses(str(shortened))


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
    """Return the name of `*args` if the call passes any."""
    kinds = {name: bound.signature.parameters[name].kind for name in bound.arguments}
    return next((name for name, kind in kinds.items() if kind is Parameter.VAR_POSITIONAL), None)


def _variadic_keywords(bound: BoundArguments) -> tuple[str, ...]:
    """Return the names of the arguments that `**kwargs` takes, in their order."""
    parameters = bound.signature.parameters.values()
    taken = (bound.arguments.get(one.name, {}) for one in parameters if one.kind is Parameter.VAR_KEYWORD)
    return tuple(name for values in taken for name in values)


def bake(module: torch.nn.Module, calls: Mapping[str, Call], seen: dict[str, Structure]) -> None:
    """Replace the module's methods by ones that take only tensors, by position. All else they take from the calls.

    This is needed because torch.jit.trace passes and names only positional tensors, and records only tensors of what is
    returned. The module itself is changed. How what a method returned nests is entered in `seen`, if the call keeps the
    tensors of it alone.
    """
    if all(_is_plain(call, getattr(module, call.function)) for call in calls.values()):
        return
    within: list[str] = []  # the baked method that runs: a method that it calls gets its arguments unchanged
    for call in calls.values():
        baked = _bake_method(call, getattr(module, call.function), within, seen)
        module.__dict__[call.method] = MethodType(baked, module)


def _bake_method(
    call: Call, original: Callable[..., Any], within: list[str], seen: dict[str, Structure]
) -> Callable[..., Any]:
    names = [name for name, value in call.arguments.items() if structure.has_tensors(value)]

    def call_baked(_: torch.nn.Module, *given: Any, **others: Any) -> Any:
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
            outputs = original(*args, **kwargs)
        finally:
            within.pop()
        if not call.keeps_tensors:
            return outputs
        assert call.returns is not None  # as `keeps_tensors` is true
        opened = returned.fix_sizes(call.returns, returned.open_containers(outputs))
        seen[call.method] = structure.describe(opened, "output")
        return returned.keep_tensors(opened)

    # torch takes the inputs' names from this signature. It skips the first one, which is the module.
    tensors = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    signature = Signature([Parameter("self", Parameter.POSITIONAL_ONLY), *tensors])
    call_baked.__signature__ = signature  # type: ignore[attr-defined]
    return call_baked


def _is_plain(call: Call, callee: Callable[..., Any]) -> bool:
    """Whether the method can be traced as it stands: it is called by position, and with and for tensors only.

    An argument that is left out does not matter, because nobody passes it. A compiled function is never plain, because
    torch does not find its parameters' names.
    """
    by_position = not call.by_name and call.variadic is None and call.method == call.function
    given = [value for value in call.arguments.values() if not isinstance(value, structure.LeftOut)]
    is_kept = by_position and not call.keeps_tensors
    return is_kept and not _is_compiled(callee) and all(structure.has_only_tensors(value) for value in given)


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
        listed = ", ".join(methods) or "none"
        raise TraceMethodNotFound(
            f"the model has no method {function!r}; it has {listed}", method=method, methods=methods
        )
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
    """Return a compiled method's signature as Python would write it, without `self`."""
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
    # forward is called through the module, so that its hooks run.
    return module if name == "forward" else getattr(module, name)
