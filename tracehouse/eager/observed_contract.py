"""The contract that the examples show: name, datatype and shape of every leaf, and how the leaves nest."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson
import torch

from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.structure import Argument, same_arguments
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import translate_errors
from tracehouse.errors import (
    ArgumentMismatch,
    OutputNotJson,
    OutputNotTensor,
    OutputWithoutDatatype,
    OutputWithoutValues,
    UnsupportedOutput,
)
from tracehouse.findings.remedies import LET_MODE_BE_AUTO_OR_SCRIPT
from tracehouse.introspection import user_lines
from tracehouse.tensors.tensor import TensorSpec
from tracehouse.torch_values import structure
from tracehouse.torch_values.tensors import spec_of

_REMEDY_OF_CONTAINER = (
    "return a tuple or a NamedTuple, or set strict to false if all values are of one type; "
    f"{LET_MODE_BE_AUTO_OR_SCRIPT}"
)


def observe(calls: Mapping[str, Call], outputs: Mapping[str, Any]) -> Contract:
    """Return the contract that one call of each method and the eager model's outputs show, both by method.

    It accepts the example's shapes only.
    """
    return Contract(methods={method: _observe_method(call, outputs[method]) for method, call in calls.items()})


def is_same_contract(example: Call, call: Call) -> bool:
    """Whether the call has the example's arguments, apart from the tensors' values."""
    return same_arguments(describe_arguments(example), describe_arguments(call)) and _specs(example.tensors) == _specs(
        call.tensors
    )


def describe_arguments(call: Call) -> list[Argument]:
    """Return the call's arguments and how they nest."""
    return [
        Argument(name=name, structure=structure.describe(value, name, scripted=call.scripted))
        for name, value in call.arguments.items()
    ]


def check_inputs(call: Call) -> None:
    """Raise ArgumentMismatch if two leaves would have the same name."""
    duplicates = _find_duplicates(
        [path for name, value in call.arguments.items() for path, _ in structure.leaves(value, name)]
    )
    if duplicates:
        raise ArgumentMismatch(f"two inputs are called {duplicates[0]!r}", method=call.method, names=duplicates)


def check_outputs(module: torch.nn.Module, call: Call, outputs: Any, *, strict: bool) -> None:
    """Raise UnsupportedOutput if the eager model returns something that an artifact cannot return.

    With `strict`, a trace cannot return a dict or a list either.
    """
    line = user_lines.line_of_function(getattr(module, call.function, None))
    where: dict[str, Any] = {"method": call.method, **user_lines.line_facts(line)}
    leaves = list(structure.leaves(outputs, "output"))
    if not leaves:
        raise UnsupportedOutput("the model returns no tensors", remedy="return at least one tensor", **where)
    for name, leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            raise OutputNotTensor(
                f"{name!r} is {_describe_leaf(leaf)}; an artifact returns only tensors",
                output=name, actual=type(leaf).__name__, remedy=_remedy_for_leaf(leaf), **where,
            )  # fmt: skip
        _check_tensor(name, leaf, **where)
    check_output_names(outputs, **where)
    if strict and not call.scripted and (container := _find_loose_container(outputs)) is not None:
        raise UnsupportedOutput(
            f"the model returns a {container}, whose size a trace cannot keep",
            actual=container, remedy=_REMEDY_OF_CONTAINER, **where,
        )  # fmt: skip


def check_eager_outputs(outputs: Any, *, method: str) -> None:
    """Raise UnsupportedOutput if the outputs cannot be reported by mode eager, which writes other leaves as JSON."""
    with translate_errors(OutputNotJson, "naming the outputs raised", method=method):
        leaves = list(structure.leaves(outputs, "output"))
        check_output_names(outputs, method=method)
    for name, leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            _check_tensor(name, leaf, method=method)
            continue
        with translate_errors(OutputNotJson, f"writing {name!r} as JSON raised", method=method, output=name):
            orjson.dumps(structure.describe_constant(leaf))


def _check_tensor(name: str, tensor: torch.Tensor, **where: Any) -> None:
    if spec_of(name, tensor) is None:
        kind = f"{tensor.dtype}, {tensor.layout}"
        raise OutputWithoutDatatype(
            f"{name!r} is {kind}, for which the protocol has no datatype",
            output=name, actual=kind, remedy=_remedy_for_datatype(tensor), **where,
        )  # fmt: skip
    if tensor.is_meta:
        raise OutputWithoutValues(f"{name!r} is on the device meta, and has no values", output=name, **where)


def _describe_leaf(leaf: Any) -> str:
    return "None" if leaf is None else f"of type {type(leaf).__name__}"


def _remedy_for_leaf(leaf: Any) -> str:
    if leaf is None:
        return "return a tensor on the example, an empty one where there is nothing, or leave that output out"
    return "return tensors, in tuples, lists or dicts"


def _remedy_for_datatype(leaf: torch.Tensor) -> str:
    if leaf.is_complex():
        return "return torch.view_as_real(y), whose last dimension is the real and the imaginary part"
    if leaf.is_quantized:
        return "return y.dequantize()"
    if leaf.is_nested:
        return "return torch.nested.to_padded_tensor(y, padding=0.0)"
    return "return y.to_dense()" if leaf.layout is not torch.strided else "return y.to(torch.float32)"


def _observe_method(call: Call, outputs: Any) -> MethodContract:
    return MethodContract(
        arguments=describe_arguments(call),
        inputs=[InputSpec.from_example(spec) for spec in _specs(call.tensors)],
        outputs=[OutputSpec.from_example(spec) for spec in _specs(structure.tensors(outputs, "output"))],
        returns=structure.describe(outputs, "output"),
    )


def _specs(tensors: Mapping[str, torch.Tensor]) -> list[TensorSpec]:
    return [spec for name, tensor in tensors.items() if (spec := spec_of(name, tensor)) is not None]


def check_output_names(outputs: Any, **where: Any) -> None:
    """Raise UnsupportedOutput if two leaves would have the same name, or if a name is not valid text."""
    for name in structure.names(outputs, "output"):
        if name != (escaped := name.encode(errors="backslashreplace").decode()):
            raise OutputNotJson(
                f"the name {escaped!r} has lone surrogates, which text cannot have", output=escaped, **where
            )
    if duplicates := _find_duplicates([name for name, _ in structure.leaves(outputs, "output")]):
        raise UnsupportedOutput(f"two outputs are called {duplicates[0]!r}", names=duplicates, **where)


def _find_duplicates(names: list[str]) -> list[str]:
    """Return the names that occur twice, as they may if a dict's keys have dots."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _find_loose_container(value: Any) -> str | None:
    """Return "dict" or "list" if the value is one, or a tuple that holds one."""
    match value:
        case Mapping():
            return "dict"
        case list():
            return "list"
        case tuple():
            return next((found for item in value if (found := _find_loose_container(item)) is not None), None)
    return None
