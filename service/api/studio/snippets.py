"""Snippets: how a program asks a version of a model, in three ways, for inputs of the example's sizes."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from math import prod
from textwrap import indent
from urllib.parse import quote

import orjson

from tracehouse.contract.contract import MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.structure import BakedLeaf, ComplexLeaf, DictNode, FixedLeaf, Structure, TensorLeaf, items_of
from tracehouse.tensors.tensor import Datatype

# Chosen: a longer line of data is not read; the request is then made by Python.
_SHOWN_VALUES_MAX = 64

_NAME_MAX = 40
# Names that a snippet has already.
_TAKEN = {"np", "tracehouse", "client", "inputs", "answer", "print", "InferenceServerClient", "InferInput"}


@dataclass(frozen=True, slots=True)
class Snippet:
    title: str
    text: str


def of_method(
    method: MethodContract, name: str, reference: str, address: str, *, takes_pictures: bool = False
) -> list[Snippet]:
    """Return what to write to call a method. A way that cannot send its datatypes, or its names, is left out.

    The process that ran submitted code chose the names, and a person copies what is written here: they stay data.
    """
    written = [Snippet("curl", _curl(method.inputs, name, reference, address))]
    has_arrays = all(spec.datatype is not Datatype.BF16 for spec in method.inputs)  # NumPy has no bfloat16
    if has_arrays and all(_is_name(argument.name) for argument in method.arguments):
        written.append(Snippet("Python", _python(method, name, reference, address)))
    if has_arrays and name == "forward":
        written.append(Snippet("tritonclient", _triton(method, reference, address)))
    if takes_pictures:
        written.append(
            Snippet("curl with a picture", _curl_with(_url(name, reference, address), "image/png", "@picture.png"))
        )
    return written


def _url(name: str, reference: str, address: str) -> str:
    return f"{address}/infer/{reference}" + ("" if name == "forward" else f"?method={quote(name)}")


def _curl_with(url: str, content_type: str, data: str) -> str:
    return f"curl {shlex.quote(url)} \\\n  -H 'content-type: {content_type}' \\\n  --data-binary {data}"


def _curl(inputs: Sequence[InputSpec], name: str, reference: str, address: str) -> str:
    url = _url(name, reference, address)
    if sum(prod(spec.example) for spec in inputs) <= _SHOWN_VALUES_MAX:
        body = orjson.dumps({"inputs": [_tensor(spec) for spec in inputs]}).decode()
        return _curl_with(url, "application/json", shlex.quote(body))
    tensors = (
        f'    {{"name": {spec.name!r}, "datatype": "{spec.datatype.value}", "shape": {list(spec.example)}, '
        f'"data": [{_value(spec)}] * {prod(spec.example)}}},'
        for spec in inputs
    )
    made = ["python3 - <<'END' > request.json", "import json", "inputs = [", *tensors, "]"]
    return "\n".join(
        [*made, 'print(json.dumps({"inputs": inputs}))', "END", _curl_with(url, "application/json", "@request.json")]
    )


def _tensor(spec: InputSpec) -> dict[str, object]:
    return {
        "name": spec.name,
        "datatype": spec.datatype.value,
        "shape": list(spec.example),
        "data": [_value(spec)] * prod(spec.example),
    }


def _value(spec: InputSpec) -> int | float:
    """Return a value that the contract takes."""
    if spec.values is not None and spec.values.low is not None:
        return spec.values.low
    if spec.values is not None and spec.values.high is not None:
        return min(0, spec.values.high)
    return 0.5 if spec.datatype.is_float else 0


def _python(method: MethodContract, name: str, reference: str, address: str) -> str:
    variables = _variables(method.inputs)
    given = ", ".join(
        f"{argument.name}={_expression(argument.structure, variables)}"
        for argument in method.arguments
        if not isinstance(argument.structure, BakedLeaf | FixedLeaf)
    )
    chosen = "" if name == "forward" else f", method={name!r}"
    return "\n".join(
        [
            "import numpy as np",
            "import tracehouse",
            "",
            f"client = tracehouse.Client({address!r})",
            *_arrays(method.inputs, variables),
            f"print(client.infer({reference!r}, {given}{chosen}))",
        ]
    )


def _triton(method: MethodContract, reference: str, address: str) -> str:
    model, _, version = reference.partition(":")
    host = address.partition("//")[2]
    variables = _variables(method.inputs)
    lines = [
        "import numpy as np",
        "from tritonclient.http import InferenceServerClient, InferInput",
        "",
        f"client = InferenceServerClient({host!r}{', ssl=True' if address.startswith('https:') else ''})",
        *_arrays(method.inputs, variables),
        "inputs = [",
        *(
            indent(f"InferInput({spec.name!r}, {list(spec.example)}, {spec.datatype.value!r}),", "    ")
            for spec in method.inputs
        ),
        "]",
        *(f"inputs[{place}].set_data_from_numpy({variables[spec.name]})" for place, spec in enumerate(method.inputs)),
        f"answer = client.infer({model!r}, inputs, model_version={version!r})",
        *(f"print(answer.as_numpy({spec.name!r}))" for spec in method.outputs),
    ]
    return "\n".join(lines)


def _arrays(inputs: Sequence[InputSpec], variables: dict[str, str]) -> list[str]:
    return [
        f"{variables[spec.name]} = np.full({tuple(spec.example)}, {_value(spec)}, {spec.datatype.dtype_name!r})"
        for spec in inputs
    ]


def _variables(inputs: Sequence[InputSpec]) -> dict[str, str]:
    """Return a Python name for each input, whose own name may have dots."""
    return {
        spec.name: spec.name if _is_name(spec.name) and spec.name not in _TAKEN else f"input_{place}"
        for place, spec in enumerate(inputs)
    }


def _is_name(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not iskeyword(name) and len(name) <= _NAME_MAX


def _expression(structure: Structure, variables: dict[str, str]) -> str:
    """Return a Python expression that nests as the argument does."""
    match structure:
        case TensorLeaf():
            return variables[structure.tensor]
        case ComplexLeaf():
            return variables[structure.complex]
        case BakedLeaf():
            return repr(structure.baked)
        case FixedLeaf():
            return repr(structure.fixed)
        case DictNode():
            return (
                "{" + ", ".join(f"{key!r}: {_expression(item, variables)}" for key, item in items_of(structure)) + "}"
            )
    items = [_expression(item, variables) for _, item in items_of(structure)]
    return "[" + ", ".join(items) + "]"
