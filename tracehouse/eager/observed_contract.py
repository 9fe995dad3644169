"""The contract that the examples show: name, datatype and shape of every leaf, and how the leaves nest."""

from collections import Counter
from collections.abc import Mapping, Sequence
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
from tracehouse.introspection import user_lines
from tracehouse.tensors.tensor import TensorSpec
from tracehouse.torch_values import returned, structure
from tracehouse.torch_values.tensors import spec_of

# The most bytes that the constants among a method's outputs may have as JSON: every reply has them. Chosen.
CONSTANTS_MAX_BYTES = 64 * 1024


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


def check_outputs(module: torch.nn.Module, call: Call, outputs: Any) -> None:
    """Raise UnsupportedOutput if the eager model returns something other than tensors and constants beside them."""
    line = user_lines.line_of_function(getattr(module, call.function, None))
    where: dict[str, Any] = {"method": call.method, **user_lines.line_facts(line)}
    leaves = list(structure.leaves(outputs, "output"))
    for name, leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            _check_tensor(name, leaf, **where)
        elif not isinstance(leaf, _CONSTANTS):
            raise OutputNotTensor(
                f"{name!r} is of type {type(leaf).__name__}, which is neither a tensor nor a constant that JSON has",
                output=name, actual=type(leaf).__name__, remedy=_REMEDY_OF_LEAF, **where,
            )  # fmt: skip
    if not structure.has_tensors(outputs):
        raise OutputNotTensor("the model returns no tensors", remedy="return at least one tensor", **where)
    check_output_names(outputs, **where)
    _check_constants(leaves, **where)


def _check_constants(leaves: Sequence[tuple[str, Any]], **where: Any) -> None:
    left_bytes = CONSTANTS_MAX_BYTES
    for name, leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            continue
        with translate_errors(OutputNotJson, f"writing {name!r} as JSON raised", output=name, **where):
            left_bytes -= len(orjson.dumps(structure.describe_constant(leaf)))
        if left_bytes < 0:
            raise UnsupportedOutput(
                f"the constants among the outputs have more than {CONSTANTS_MAX_BYTES} bytes",
                limit_bytes=CONSTANTS_MAX_BYTES, remedy="return tensors in place of long texts and lists of numbers",
                **where,
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


_CONSTANTS = (type(None), bool, int, float, str)
_REMEDY_OF_LEAF = "return tensors, numbers, texts, booleans and None, in tuples, lists, dicts or dataclasses"


def _check_tensor(name: str, tensor: torch.Tensor, **where: Any) -> None:
    if spec_of(name, returned.as_reals(tensor)) is None:
        kind = f"{tensor.dtype}, {tensor.layout}"
        raise OutputWithoutDatatype(
            f"{name!r} is {kind}, for which the protocol has no datatype",
            output=name, actual=kind, remedy=_remedy_for_datatype(tensor), **where,
        )  # fmt: skip
    if tensor.is_meta:
        raise OutputWithoutValues(f"{name!r} is on the device meta, and has no values", output=name, **where)


def _remedy_for_datatype(leaf: torch.Tensor) -> str:
    if leaf.is_quantized:
        return "return y.dequantize()"
    if leaf.is_nested:
        return "return torch.nested.to_padded_tensor(y, padding=0.0)"
    return "return y.to_dense()" if leaf.layout is not torch.strided else "return y.to(torch.float32)"


def _observe_method(call: Call, outputs: Any) -> MethodContract:
    return MethodContract(
        arguments=describe_arguments(call),
        inputs=[InputSpec.from_example(spec) for spec in _specs(call.tensors)],
        outputs=[OutputSpec.from_example(spec) for spec in _specs(returned.tensors(outputs))],
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
