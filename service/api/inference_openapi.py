"""An inference request's body in OpenAPI's words: its three forms. `service.api.inference_json` reads them."""

from typing import Any

from service.api.examples import LINEAR_INFERENCE
from tracehouse.tensors.tensor import Datatype

NOT_FINITE = 'JSON has no NaN and no infinities: they are "NaN", "Infinity" and "-Infinity".'

_PARAMETERS = {"type": "object", "description": "Taken, as the protocol has it, and not used."}
_TENSOR_MEMBERS: dict[str, Any] = {
    "name": {"type": "string"},
    "datatype": {"type": "string", "enum": [datatype.value for datatype in Datatype]},
    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
    "data": {"description": f"Row-major, flat or nested. {NOT_FINITE}"},
    "parameters": _PARAMETERS,
}
_COMMON_MEMBERS: dict[str, Any] = {
    "id": {"type": "string", "description": "Comes back in the reply."},
    "parameters": _PARAMETERS,
    "outputs": {
        "type": "array",
        "description": "Which outputs to answer with; all of them where this is left out.",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "parameters": _PARAMETERS},
        },
    },
}
_PROTOCOL_MEMBERS: dict[str, Any] = {
    "inputs": {
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "data"],
            "properties": _TENSOR_MEMBERS,
        },
    }
}
_NESTED = (
    "A tensor is an object as in the protocol's form, or nested lists: then the contract has its datatype, and they "
    "spell its shape. "
    "An object that stands for a dict may have its members in any order: the model gets them in the example's."
)
_NAMED_MEMBERS: dict[str, Any] = {
    "inputs": {
        "type": "object",
        "description": f"By an input's name, or by an argument's, nested as it nests. {_NESTED}",
    }
}
_CALL_MEMBERS: dict[str, Any] = {
    "args": {"type": "array", "items": {}, "description": f"In the method's order, nested as they nest. {_NESTED}"},
    "kwargs": {"type": "object", "description": "By the method's names."},
}
MODEL_MEMBER: dict[str, Any] = {
    "model": {"type": "string", "description": "`name`, `name@alias` or `name:version`.", "examples": ["linear"]}
}


def request_body(model: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    """In the three forms, each with an example that can be sent as it is."""
    x = LINEAR_INFERENCE["inputs"]["x"]
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": x[0]}
    forms: list[tuple[str, list[str], dict[str, Any], dict[str, Any]]] = [
        ("By name", ["inputs"], _NAMED_MEMBERS, LINEAR_INFERENCE),
        ("Open Inference Protocol", ["inputs"], _PROTOCOL_MEMBERS, {"inputs": [tensor]}),
        ("As a call", [], _CALL_MEMBERS, {"args": [x]}),
    ]
    schemas = [
        {
            "title": title,
            "type": "object",
            "additionalProperties": False,
            "required": [*model, *required],
            "properties": {**model, **members, **_COMMON_MEMBERS},
        }
        for title, required, members, _ in forms
    ]
    examples = {title: {"value": example | sent} for title, _, _, sent in forms}
    content = {"application/json": {"schema": {"anyOf": schemas}, "examples": examples}}
    return {"requestBody": {"required": True, "content": content}}
