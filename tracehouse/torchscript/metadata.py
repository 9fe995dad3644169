"""Metadata: what the manifest lists about a compiled module. Attributes and constants are shortened and limited."""

from collections.abc import Iterable, Iterator
from itertools import islice

import torch

from tracehouse.artifact.manifest import (
    ATTRIBUTE_TEXT_MAX_CHARACTERS,
    ATTRIBUTES_MAX,
    CONSTANTS_MAX,
    ModuleAttribute,
    Submodule,
    TensorConstant,
)
from tracehouse.introspection import script_graphs
from tracehouse.tensors.tensor import TensorSpec
from tracehouse.torch_values.tensors import spec_of
from tracehouse.torchscript import attributes as module_attributes
from tracehouse.torchscript import tensor_constants


def submodules(module: torch.jit.ScriptModule) -> list[Submodule]:
    """Return the compiled submodules with their methods, without the module itself."""
    return [
        Submodule(name=path, type=part.original_name, methods=list(script_graphs.methods(part)))
        for path, part in script_graphs.parts(module)
        if path
    ]


def tensors(named: Iterable[tuple[str, torch.Tensor]]) -> list[TensorSpec]:
    """Return name, datatype and shape of each tensor; tensors without a datatype in the protocol are left out."""
    return [spec for name, tensor in named if (spec := spec_of(name, tensor)) is not None]


def attributes(module: torch.jit.ScriptModule) -> list[ModuleAttribute]:
    """Return the first ATTRIBUTES_MAX attributes of the module and its submodules."""
    return list(islice(_attributes(module), ATTRIBUTES_MAX))


def constants(module: torch.jit.ScriptModule) -> list[TensorConstant]:
    """Return the first CONSTANTS_MAX tensor constants of the module and its submodules."""
    return list(islice(_constants(module), CONSTANTS_MAX))


def _attributes(module: torch.jit.ScriptModule) -> Iterator[ModuleAttribute]:
    for path, part in script_graphs.parts(module):
        for attribute in module_attributes.attributes_of(part):
            name = script_graphs.join_path(path, attribute.name)
            if _are_short(name, attribute.type):
                value = module_attributes.shorten_value(attribute.value)
                yield ModuleAttribute(name=name, type=attribute.type, value=value)


def _constants(module: torch.jit.ScriptModule) -> Iterator[TensorConstant]:
    for path, part in script_graphs.parts(module):
        for method, compiled in script_graphs.methods(part).items():
            _, named = tensor_constants.code_and_constants(compiled)
            for name, tensor in named.items():
                if _are_short(path, method):
                    yield TensorConstant(
                        name=name,
                        datatype=tensor_constants.datatype_name(tensor),
                        shape=() if tensor.is_nested else tuple(tensor.shape),
                        method=method,
                        submodule=path,
                    )


def _are_short(*texts: str) -> bool:
    return all(len(text) <= ATTRIBUTE_TEXT_MAX_CHARACTERS for text in texts)
