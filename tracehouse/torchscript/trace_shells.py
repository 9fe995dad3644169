"""Trace shells: what torch's tracer needs of a module where only the graph of the trace is wanted.

torch.jit.trace_module makes a ScriptModule of each submodule, with all that a user may do with one. On a ViT that takes
ten times as long as the traced call. The tracer itself looks up parameters, buffers and submodules by their names.
"""

from collections.abc import Callable
from itertools import chain, repeat
from types import FunctionType
from typing import Any

import torch
from torch._jit_internal import FunctionModifiers, _qualified_name, get_torchscript_modifier
from torch.jit._trace import TopLevelTracedModule

# torch leaves these out of its types.
_C: Any = torch._C
_Compiled = tuple[Any, Any]  # a module of C++, and its type


class _NotPlain(Exception):
    """Some submodule is more than its parameters, buffers and submodules."""


class TraceShell:
    """The module that a trace is recorded into: it has the graph, and cannot be called, saved or looked into.

    torch.jit.trace_module takes it as `_module_class`. Of a model with scripted submodules, with methods that torch
    exports, or with other objects of TorchScript, it is all that torch makes of such a model.
    """

    def __init__(self, module: torch.nn.Module, _compilation_unit: Any = None) -> None:
        try:
            self._c, _ = _compile(module, {})
        except Exception:  # noqa: BLE001 - it is not plain, or another release of torch has other parts
            self._c = TopLevelTracedModule(module, _compilation_unit=_compilation_unit)._c


def whole_then_shells() -> Callable[..., Any]:
    """Return a `_module_class` for a trace that torch checks: torch's own, and then shells for its check's traces."""
    kinds = chain([TopLevelTracedModule], repeat(TraceShell))
    return lambda module, _compilation_unit=None: next(kinds)(module, _compilation_unit=_compilation_unit)


def _compile(module: torch.nn.Module, kinds: dict[type, type]) -> _Compiled:
    """Return the module for the tracer. `kinds` has the class under whose name torch compiles a class.

    Raises _NotPlain.
    """
    kind = type(module)
    if kind not in kinds:
        kinds[kind] = _name_kind(kind)
    if (
        isinstance(module, torch.jit.ScriptModule)
        or module._backward_hooks
        or any(map(_is_scripted, vars(module).values()))
    ):
        raise _NotPlain
    builder = _C.ConcreteModuleTypeBuilder(kinds[kind])
    held: dict[str, Any] = {}
    for tensors, is_parameter in ((module._parameters, True), (module._buffers, False)):
        for name, tensor in tensors.items():
            if tensor is not None:
                builder.add_attribute(name, _C.TensorType.get(), is_parameter, not is_parameter)
                held[name] = tensor
    for name, child in module._modules.items():
        if child is not None:
            held[name], its_type = _compile(child, kinds)
            builder.add_module(name, its_type)
    compiled_type = builder.build()
    compiled = _C._create_module_with_type(compiled_type.jit_type)
    for name, value in held.items():
        compiled.setattr(name, value)
    return compiled, compiled_type


def _name_kind(kind: type) -> type:
    """Return an empty class with the name under which torch compiles this one.

    Raises _NotPlain if it exports methods.
    """
    if any(_is_exported(value) for base in kind.__mro__ for value in vars(base).values()):
        raise _NotPlain
    return type("Shell", (torch.nn.Module,), {"_jit_override_qualname": _qualified_name(kind)})


def _is_scripted(value: Any) -> bool:
    return bool(_C._jit_is_script_object(value)) or _is_exported(value)


def _is_exported(value: Any) -> bool:
    return type(value) is FunctionType and get_torchscript_modifier(value) is FunctionModifiers.EXPORT
