"""Scripting: the only caller of torch.jit.script. What TorchScript cannot compile is an error with the user's line."""

import inspect
import linecache
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

import torch
import torch.jit._recursive
from torch._jit_internal import FunctionModifiers, get_torchscript_modifier

from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error
from tracehouse.eager.model import Function, LoadedModel
from tracehouse.errors import MethodNotCompiled, ScriptingFailed, TraceError
from tracehouse.findings.trace_check import TorchCheck
from tracehouse.introspection import paths, script_graphs, user_lines
from tracehouse.torchscript import archives
from tracehouse.torchscript.archives import Archive
from tracehouse.torchscript.trace import TraceResult, check_names

# The file name under which torch finds the text of the functions that are written here.
_SERVED = "<a function as a module>"

_AVOID = (
    "write it another way, guard it with `if not torch.jit.is_scripting():` if the artifact does not need it, or trace "
    "the model instead: a trace records what Python does"
)
# What to write instead: a part of torch's message, and the remedy. Otherwise the error's own remedy is used.
_REMEDIES = [
    ("Could not export Python function call",
        "guard the call with `if not torch.jit.is_scripting():` if the artifact does not need it, let the function be "
        "compiled, or trace the model instead: a function marked with @torch.jit.ignore is left to Python, and cannot "
        "be saved"),
    ("variable number of arguments",
        "give each argument a name and a type, and keyword-only arguments no default; or trace the model"),
    ("Mutable default parameters",
        "let the default be None, with the type Optional[...], and make the value inside"),
    ("Expected integer literal for index",
        "loop over the modules, as `for layer in self.layers:`, or write the index as a number"),
    ("Unable to extract string literal index", "loop over `.items()` of the modules, or write the key as a text"),
    ("argument must be a string literal", "write the attribute's name as a text"),
    ("closed over global variable",
        "pass the value as an argument, keep it as a buffer or an attribute of the module, or annotate it with Final"),
    ("is not defined in the", "assign the variable before the `if`, with the type that it has in both branches"),
    ("cannot statically infer the expected size", "index item by item, as x.shape[0], in place of unpacking the list"),
    ("previously matched to type", "give all items of the list one type, and annotate an empty list, as List[int]"),
    ("attribute or method 'forward'",
        "give the method of the base class a name of its own, and call it by that: TorchScript has no super()"),
    ("Unknown type name", "annotate with torch.Tensor, or with a type that TorchScript has"),
    ("Tried to set nonexistent attribute", "assign the attribute in __init__"),
    ("cannot call a value of type 'NoneType'", "test `is not None` before the call"),
    ("This function exists as an attribute",
        "define the function with `def`, types and no lambda, so that torch.jit.script compiles it"),
    ("Python type: 'list'", "put modules into an nn.ModuleList; annotate the type of any other list in the class"),
    ("Python type: 'dict'", "put modules into an nn.ModuleDict; annotate the type of any other dict in the class"),
    ("Arguments for call are not valid",
        "pass arguments of the types that one of the signatures in the message has; annotate those without a type"),
    ("Failed to get source",
        "write the class out, with `def __init__`, in a file of the source: TorchScript compiles text, and a dataclass "
        "has none"),
    ("has no type annotations", "annotate the types of the arguments and of the return value"),
    ("(inferred)", "annotate the type: TorchScript takes an argument without a type for a Tensor"),
    ("Could not infer type", "annotate the attribute's type in the class, or make it Final"),
    ("failed to convert Python type",
        "annotate the attribute's type in the class, make it Final, or leave it out of the compiled methods"),
    ("refine the type", "copy the attribute to a local variable, and test `is not None` on that variable"),
    *((words, _AVOID) for words in (
        "aren't supported", "not supported yet", "currently not supported in Torchscript", "Don't support",
        "are not supported",
    )),
    ("source code", "TorchScript compiles the text of a function: define it in a file of the source"),
]  # fmt: skip
_LACKS_A_DEFAULT = re.compile(r"\w+\(__torch__.*\) -> .*:\s+Argument \w+ not provided")
_REMEDY_OF_A_DEFAULT = (
    "pass the argument in that call: a method that `methods` names, or @torch.jit.export marks, loses its defaults "
    "when another method calls it"
)


def script(model: LoadedModel, calls: Mapping[str, Call]) -> TraceResult:
    """Compile a copy of the model with all methods that are called, and return it with its archive.

    Raises ScriptingFailed, MethodNotCompiled, and UntraceableModel for a name outside ASCII.
    """
    check_names(model, calls)
    if isinstance(model.module, Function):
        module = _compile_function(model.module, calls["forward"])
    else:
        module = _compile_module(model.copy_module(), calls)
    return keep_compiled(module, calls)


def keep_compiled(module: torch.jit.ScriptModule, calls: Mapping[str, Call]) -> TraceResult:
    """Save a compiled module and return it with its archive.

    Raises ScriptingFailed if it cannot be saved, and MethodNotCompiled if a called method is not compiled.
    """
    compiled = [name for name in script_graphs.methods(module) if not name.startswith("_")]
    for method in calls:
        if method not in compiled:
            listed = ", ".join(compiled) or "none"
            raise MethodNotCompiled(
                f"{method!r} is not compiled; the module's compiled methods: {listed}", methods=compiled
            )
    _check_keywords(module)
    with _translate_refusals():
        archive = archives.save(module)
    return result_without_trace(module, archive)


def result_without_trace(module: torch.jit.ScriptModule, archive: Archive) -> TraceResult:
    """Return a module that was not traced as a TraceResult, without warnings and without torch's check."""
    return TraceResult(module, archive, warnings=[], torch_check=TorchCheck(ran=False))


def _check_keywords(module: torch.jit.ScriptModule) -> None:
    """Raise ScriptingFailed if a keyword-only parameter comes after one with a default.

    torch writes no `*` into an archive, and cannot load a parameter without a default after one with a default.
    """
    for path, part in script_graphs.parts(module):
        for name, method in script_graphs.methods(part).items():
            has_default = False
            for argument in method.schema.arguments:
                if has_default and argument.kwarg_only:
                    full = script_graphs.join_path(path, name)
                    raise ScriptingFailed(
                        f"torch cannot load an archive in which the keyword-only parameter {argument.name!r} of {full} "
                        "comes after one with a default",
                        method=full,
                        parameter=argument.name,
                        remedy="remove the `*` and put the parameter first, or remove the defaults before it",
                    )
                has_default = has_default or argument.has_default_value()


def script_target(part: Any) -> Any:
    """Return a submodule of a model, or a function that it calls, compiled. Raises ScriptingFailed."""
    with _translate_refusals(), _separate_type_store():
        return torch.jit.script(part)


def _compile_module(module: torch.nn.Module, calls: Mapping[str, Call]) -> torch.jit.ScriptModule:
    for call in calls.values():
        if call.method != call.function:  # the entrypoint is a bound method: forward stands for it
            module.__dict__[call.method] = getattr(module, call.function)
    with _translate_refusals(), _separate_type_store(), _mark_exported(module, list(calls)):
        compiled: torch.jit.ScriptModule = torch.jit.script(module)
        return compiled


def _compile_function(function: Function, call: Call) -> torch.jit.ScriptModule:
    """Return a module whose forward passes the artifact's arguments to the function."""
    original: Any = function.forward
    if not isinstance(original, FunctionType | MethodType | torch.jit.ScriptFunction):
        raise ScriptingFailed(
            f"torch.jit.script compiles functions and modules, not an object of type {type(original).__name__}",
            remedy="let the entrypoint be a function or an nn.Module, or trace it",
        )
    with _translate_refusals(), _separate_type_store():
        scripted = torch.jit.script(original)
        forward = _write_forward(scripted, _annotations_of(original), list(call.artifact_args_by_name))
        wrapper = type("Function", (torch.nn.Module,), {"forward": forward})()
        compiled: torch.jit.ScriptModule = torch.jit.script(wrapper.eval())
        return compiled


def _write_forward(scripted: Any, types: Mapping[str, Any], names: Sequence[str]) -> Callable[..., Any]:
    """Return the forward, written as text because torch compiles only functions whose text it finds."""
    torch_types = {argument.name: argument.type.annotation_str for argument in scripted.schema.arguments}
    known = {f"type_{name}": kind for name, kind in types.items()}
    taken = [f"{name}: {f'type_{name}' if name in types else torch_types[name]}" for name in names]
    passed = [f"{name}={name}" for name in names]
    text = f"def forward({', '.join(['self', *taken])}):\n    return function({', '.join(passed)})\n"
    linecache.cache[_SERVED] = (len(text), None, text.splitlines(keepends=True), _SERVED)
    namespace: dict[str, Any] = {"function": scripted, "torch": torch, **vars(typing), "Tensor": torch.Tensor, **known}
    exec(compile(text, _SERVED, "exec"), namespace)  # of names that Python and torch have parsed
    forward: Callable[..., Any] = namespace["forward"]
    return forward


def _annotations_of(function: Any) -> dict[str, Any]:
    """Return the annotations as Python objects, because torch's names of a source's types are no Python."""
    try:
        return typing.get_type_hints(function)
    except Exception:  # noqa: BLE001 - submitted code: its types may stand in comments, or fail to evaluate
        return {}


@contextmanager
def _separate_type_store() -> Iterator[None]:
    """Let torch compile classes of modules anew: it would reuse one with the methods that were compiled first."""
    recursive = torch.jit._recursive
    before = recursive.concrete_type_store
    recursive.concrete_type_store = recursive.ConcreteTypeStore()
    try:
        yield
    finally:
        recursive.concrete_type_store = before


@contextmanager
def _mark_exported(module: torch.nn.Module, methods: Sequence[str]) -> Iterator[None]:
    """Mark these methods with torch.jit.export while they are compiled."""
    marked = []
    for method in methods:
        function = getattr(module, method)
        function = function.__func__ if isinstance(function, MethodType) else function
        if inspect.isfunction(function) and get_torchscript_modifier(function) is FunctionModifiers.DEFAULT:
            torch.jit.export(function)
            marked.append(function)
    try:
        yield
    finally:
        for function in marked:
            del function._torchscript_modifier  # type: ignore[attr-defined]


@contextmanager
def _translate_refusals() -> Iterator[None]:
    """Turn what torch raises while it compiles or saves into ScriptingFailed with the user's line."""
    try:
        yield
    except TraceError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory_error(error) from error
        raise _refusal(error) from error


def _refusal(error: Exception) -> ScriptingFailed:
    text = user_lines.error_text(error).strip()
    headline = _headline(text) or type(error).__name__
    facts: dict[str, Any] = user_lines.error_facts(error) | user_lines.line_facts(
        user_lines.line_of_compiler_error(text)
    )
    facts["message"] = paths.without_paths_in_stacks(text)
    if _LACKS_A_DEFAULT.match(text):
        facts["remedy"] = _REMEDY_OF_A_DEFAULT
    else:
        facts |= next(({"remedy": remedy} for words, remedy in _REMEDIES if words in text), {})
    return ScriptingFailed(f"torch cannot script this: {paths.without_paths_in_stacks(headline)}", **facts)


def _headline(text: str) -> str:
    """Return a message's first line; after a signature, the second line, which has the reason, comes first."""
    first, second, *_ = [*(line.strip() for line in text.splitlines() if line.strip()), "", ""]
    return f"{second.rstrip('.')}: {first.rstrip(':')}" if _is_signature(first) else first.rstrip(":")


def _is_signature(line: str) -> bool:
    """Whether this is the first line of torch's message if a call does not fit the function; the reason follows it."""
    name, _, rest = line.partition("(")
    return bool(name) and not any(map(str.isspace, name)) and ") -> " in rest and rest.endswith(":")
