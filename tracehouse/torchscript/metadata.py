"""Metadata: what the manifest lists of a traced module. Of attributes and constants, the first ones, shortened."""

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
    return [
        Submodule(name=path, type=part.original_name, methods=list(script_graphs.methods(part)))
        for path, part in script_graphs.parts(module)
        if path
    ]


def tensors(named: Iterable[tuple[str, torch.Tensor]]) -> list[TensorSpec]:
    """Those that have a datatype."""
    return [spec for name, tensor in named if (spec := spec_of(name, tensor)) is not None]


def attributes(module: torch.jit.ScriptModule) -> list[ModuleAttribute]:
    return list(islice(_attributes(module), ATTRIBUTES_MAX))


def constants(module: torch.jit.ScriptModule) -> list[TensorConstant]:
    return list(islice(_constants(module), CONSTANTS_MAX))


def _attributes(module: torch.jit.ScriptModule) -> Iterator[ModuleAttribute]:
    for path, part in script_graphs.parts(module):
        for held in module_attributes.attributes_of(part):
            name = script_graphs.join_path(path, held.name)
            if _are_short(name, held.type):
                yield ModuleAttribute(name=name, type=held.type, value=module_attributes.shorten_value(held.value))


def _constants(module: torch.jit.ScriptModule) -> Iterator[TensorConstant]:
    for path, part in script_graphs.parts(module):
        for method, compiled in script_graphs.methods(part).items():
            _, held = tensor_constants.code_and_constants(compiled)
            for name, tensor in held.items():
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
