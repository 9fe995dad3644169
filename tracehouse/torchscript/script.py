"""Scripting: the only caller of torch.jit.script; what TorchScript cannot compile comes out with the user's line."""

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
from tracehouse.eager.model import Function, Model
from tracehouse.errors import MethodNotCompiled, ScriptingFailed, TraceError
from tracehouse.findings.trace_check import TorchCheck
from tracehouse.introspection import paths, script_graphs, user_lines
from tracehouse.torchscript.trace import TraceResult, check_names

# Under which torch finds the text of what is written here.
_SERVED = "<a function as a module>"

# By what torch says: what to write instead. Without one of these, the error's own remedy stands.
_REMEDIES = [
    ("Could not export Python function call",
        "guard the call with `if not torch.jit.is_scripting():` where the artifact can do without it, let the function "
        "be compiled, or trace the model instead: what is marked with @torch.jit.ignore is left to Python, and cannot "
        "be saved"),
    ("variable number of arguments",
        "give each argument a name and a type, and a keyword-only one no default; or trace the model"),
    ("Mutable default parameters",
        "let the default be None, with the type Optional[...], and make the value inside"),
    ("has no type annotations", "annotate the types of the arguments and of what is returned"),
    ("(inferred)", "annotate the type: an argument without one is a Tensor to TorchScript"),
    ("Could not infer type", "annotate the attribute's type in the class, or make it Final"),
    ("failed to convert Python type",
        "annotate the attribute's type in the class, make it Final, or leave it out of the compiled methods"),
    ("refine the type", "copy the attribute to a local variable, and ask `is not None` of that"),
    ("aren't supported",
        "write it without that, guard it with `if not torch.jit.is_scripting():` where the artifact can do without it, "
        "or trace the model instead: a trace records what Python does"),
    ("source code", "TorchScript compiles the text of a function: define it in a file of the source"),
]  # fmt: skip
# As torch begins where a call does not fit what it calls; the reason follows.
_SIGNATURE = re.compile(r"\S+\(.*\) -> .*:")
_LACKS_A_DEFAULT = re.compile(r"\w+\(__torch__.*\) -> .*:\s+Argument \w+ not provided")
_REMEDY_OF_A_DEFAULT = (
    "pass it in that call: what `methods` names, or @torch.jit.export marks, has lost its defaults where another "
    "method calls it"
)


def script(model: Model, calls: Mapping[str, Call]) -> TraceResult:
    """Compile the model, and of its methods all that are called. Raises ScriptingFailed and MethodNotCompiled."""
    check_names(model, calls)
    if isinstance(model.module, Function):
        module = _compile_function(model.module, calls["forward"])
    else:
        module = _compile_module(model.copy_module(), calls)
    return keep_compiled(module, calls)


def keep_compiled(module: torch.jit.ScriptModule, calls: Mapping[str, Call]) -> TraceResult:
    """A module that is compiled. Raises ScriptingFailed where it cannot be saved, and MethodNotCompiled."""
    compiled = [name for name in script_graphs.methods(module) if not name.startswith("_")]
    for method in calls:
        if method not in compiled:
            there = ", ".join(compiled) or "none"
            raise MethodNotCompiled(f"{method!r} is not compiled; of its methods, {there} are", methods=compiled)
    _check_keywords(module)
    with _translate_refusals():
        archive = module.save_to_buffer()
    return result_without_trace(module, archive)


def result_without_trace(module: torch.jit.ScriptModule, archive: bytes) -> TraceResult:
    """In the same words as a trace, of which there are none: no tracer warned, and torch checks traces alone."""
    return TraceResult(module, archive, warnings=[], torch_check=TorchCheck(ran=False))


def _check_keywords(module: torch.jit.ScriptModule) -> None:
    """torch writes no `*` into an archive, and cannot read a parameter without a default behind one that has one."""
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
                        remedy="take away the `*` and let it come first, or take away the defaults before it",
                    )
                has_default = has_default or argument.has_default_value()


def script_target(part: Any) -> Any:
    """A submodule of a model, or a function that it calls. Raises ScriptingFailed."""
    with _translate_refusals(), _separate_type_store():
        return torch.jit.script(part)


def _compile_module(module: torch.nn.Module, calls: Mapping[str, Call]) -> torch.jit.ScriptModule:
    for call in calls.values():
        if call.method != call.function:  # a bound method, for which forward stands
            module.__dict__[call.method] = getattr(module, call.function)
    with _translate_refusals(), _separate_type_store(), _mark_exported(module, list(calls)):
        compiled: torch.jit.ScriptModule = torch.jit.script(module)
        return compiled


def _compile_function(function: Function, call: Call) -> torch.jit.ScriptModule:
    """A module whose forward hands to the function what the artifact is handed over."""
    original: Any = function.forward
    if not isinstance(original, FunctionType | MethodType | torch.jit.ScriptFunction):
        raise ScriptingFailed(
            f"torch.jit.script compiles functions and modules, and this is of type {type(original).__name__}",
            remedy="let the entrypoint be a function or an nn.Module, or trace it",
        )
    with _translate_refusals(), _separate_type_store():
        scripted = torch.jit.script(original)
        forward = _write_forward(scripted, _annotations_of(original), list(call.artifact_args_by_name))
        served = type("Function", (torch.nn.Module,), {"forward": forward})()
        compiled: torch.jit.ScriptModule = torch.jit.script(served.eval())
        return compiled


def _write_forward(scripted: Any, types: Mapping[str, Any], names: Sequence[str]) -> Callable[..., Any]:
    """Written as text, for torch compiles nothing else."""
    words = {argument.name: argument.type.annotation_str for argument in scripted.schema.arguments}
    known = {f"type_{name}": kind for name, kind in types.items()}
    taken = [f"{name}: {f'type_{name}' if name in types else words[name]}" for name in names]
    passed = [f"{name}={name}" for name in names]
    text = f"def forward({', '.join(['self', *taken])}):\n    return function({', '.join(passed)})\n"
    linecache.cache[_SERVED] = (len(text), None, text.splitlines(keepends=True), _SERVED)
    namespace: dict[str, Any] = {"function": scripted, "torch": torch, **vars(typing), "Tensor": torch.Tensor, **known}
    exec(compile(text, _SERVED, "exec"), namespace)  # of names that Python and torch have parsed
    forward: Callable[..., Any] = namespace["forward"]
    return forward


def _annotations_of(function: Any) -> dict[str, Any]:
    """The annotations as Python objects, for torch's own names of a source's types cannot be written in a source."""
    try:
        return typing.get_type_hints(function)
    except Exception:  # noqa: BLE001 - submitted code: one that says its types in comments, or that Python cannot read
        return {}


@contextmanager
def _separate_type_store() -> Iterator[None]:
    """torch compiles a class of modules once, with the methods that it was first asked for."""
    recursive = torch.jit._recursive
    before = recursive.concrete_type_store
    recursive.concrete_type_store = recursive.ConcreteTypeStore()
    try:
        yield
    finally:
        recursive.concrete_type_store = before


@contextmanager
def _mark_exported(module: torch.nn.Module, methods: Sequence[str]) -> Iterator[None]:
    """As if the source had marked these methods with torch.jit.export, until they are compiled."""
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
    """What torch raises while it compiles or saves."""
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
    said = _headline(text) or type(error).__name__
    facts: dict[str, Any] = user_lines.error_facts(error) | user_lines.line_facts(
        user_lines.line_of_compiler_error(text)
    )
    facts["message"] = paths.without_paths_in_stacks(text)
    if _LACKS_A_DEFAULT.match(text):
        facts["remedy"] = _REMEDY_OF_A_DEFAULT
    else:
        facts |= next(({"remedy": remedy} for words, remedy in _REMEDIES if words in text), {})
    return ScriptingFailed(f"torch cannot script this: {paths.without_paths_in_stacks(said)}", **facts)


def _headline(text: str) -> str:
    """Its first line; where that is the signature of what was called, the reason stands in the next one."""
    first, second, *_ = [*(line.strip() for line in text.splitlines() if line.strip()), "", ""]
    return f"{second.rstrip('.')}: {first.rstrip(':')}" if _SIGNATURE.fullmatch(first) else first.rstrip(":")
