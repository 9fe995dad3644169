"""The OpenAPI schema of inference: the forms of JSON, which `service.api.inference_json` reads, and those of bytes."""

from collections.abc import Mapping
from typing import Any

from service.api import inference_json
from service.api.examples import LINEAR_INFERENCE
from service.api.inference_forms import BY_MEDIA_TYPE, REPLY_TYPES, REQUEST_TYPES, Form
from tracehouse.tensors.tensor import Datatype

NOT_FINITE = 'JSON has no NaN and no infinities: they are "NaN", "Infinity" and "-Infinity".'
_ROUNDED = "Numbers are rounded to the nearest of the datatype, FP16 and BF16 too; one beyond its range is refused."

_PARAMETERS = {"type": "object", "description": "The protocol has it; it is taken and not used."}
_REQUEST_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "description": "The protocol has it; what is not listed here is taken and not used.",
    "properties": {
        "seed": {
            "type": "integer",
            "minimum": 0,
            "maximum": inference_json.SEED_MAX,
            "description": "Seeds the random numbers of a method that draws some: the same seed gives the same answer. "
            "Default: a new seed for each request, which the reply says.",
        }
    },
}
_TENSOR_MEMBERS: dict[str, Any] = {
    "name": {"type": "string"},
    "datatype": {"type": "string", "enum": [datatype.value for datatype in Datatype]},
    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
    "data": {"description": f"Row-major, flat or nested. {NOT_FINITE} {_ROUNDED}"},
    "parameters": _PARAMETERS,
}
_COMMON_MEMBERS: dict[str, Any] = {
    "id": {"type": "string", "maxLength": inference_json.ID_MAX, "description": "The reply repeats it."},
    "parameters": _REQUEST_PARAMETERS,
    "outputs": {
        "type": "array",
        "description": "The outputs to return. Default: all.",
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
    "A tensor is an object as in the protocol's form, or nested lists: then the contract gives the datatype, and the "
    "lists' nesting gives the shape. Where the contract has `other_ranks`, flat `data` without a `shape`, and lists "
    "that end at a dim of size 0, are of the example's rank. "
    "An object that stands for a dict may have its members in any order: the model gets them in the example's order."
)
_NAMED_MEMBERS: dict[str, Any] = {
    "inputs": {
        "type": "object",
        "description": f"Tensors by the name of an input, or arguments by name, nested as in the example. {_NESTED}",
    }
}
_CALL_MEMBERS: dict[str, Any] = {
    "args": {
        "type": "array",
        "items": {},
        "description": f"The arguments in the method's order, nested as in the example. {_NESTED}",
    },
    "kwargs": {"type": "object", "description": "The arguments by name."},
}
MODEL_MEMBER: dict[str, Any] = {
    "model": {"type": "string", "description": "`name`, `name@alias` or `name:version`.", "examples": ["linear"]}
}


_BINARY: dict[str, Any] = {"type": "string", "format": "binary"}
_ABOUT = {
    Form.SAFETENSORS: "A safetensors file: each tensor under its name in the contract.",
    Form.NPZ: "An archive of numpy's `savez` or `savez_compressed`: each tensor under its name in the contract.",
    Form.NPY: "A file of numpy's `save`: one tensor.",
    Form.PNG: "A picture, for a model whose request says how one is read.",
    Form.JPEG: "A picture, for a model whose request says how one is read.",
    Form.BYTES: "The values of one tensor: row-major, little-endian, a boolean as one byte.",
}
# The bodies that are not JSON, by their media types.
BINARY_REQUESTS: dict[str, Any] = {
    kind: {"schema": {**_BINARY, "description": _ABOUT[BY_MEDIA_TYPE[kind]]}, "example": "the bytes"}
    for kind in REQUEST_TYPES
    if kind != Form.JSON
}
BINARY_REPLIES: dict[str, Any] = {kind: BINARY_REQUESTS[kind] for kind in REPLY_TYPES if kind != Form.JSON}
REPLY_HEADERS: dict[str, Any] = {
    name: {"description": f"{text} Present if the reply is not JSON.", "schema": {"type": "string"}}
    for name, text in {
        "Inference-Model": "The model's name.",
        "Inference-Model-Version": "The version that answered.",
        "Inference-Seed": "The seed of the random numbers, as `parameters.seed` in JSON.",
        "Inference-Id": "The request's id, percent-encoded, if it has one.",
        "Inference-Output": "The name of the one tensor, percent-encoded, in a form that does not say it.",
        "Inference-Datatype": "The datatype of that tensor.",
        "Inference-Shape": "The shape of that tensor, such as `2,3`.",
    }.items()
}


def request_body(
    model: dict[str, Any], example: dict[str, Any], others: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the schema of the three forms of JSON, each with an example that can be sent as it is, and that of the
    `others`, by media type."""
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
    content = {"application/json": {"schema": {"anyOf": schemas}, "examples": examples}, **(others or {})}
    return {"requestBody": {"required": True, "content": content}}


_SIZE = {"type": "integer", "minimum": 0, "description": "The bytes of this tensor, which follow the JSON."}
_BINARY_INPUT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        **_TENSOR_MEMBERS,
        "parameters": {"type": "object", "properties": {"binary_data_size": _SIZE}},
    },
}
_BINARY_OUTPUT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "parameters": {"type": "object", "properties": {"binary_data": {"type": "boolean"}}},
    },
}
_PROTOCOL_PARAMETERS = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "method": {"type": "string", "description": "The traced method to call."},
        "seed": _REQUEST_PARAMETERS["properties"]["seed"],
        "timeout": {"type": "integer", "minimum": 0, "description": "Microseconds; 0 sets no limit."},
        "priority": {"type": "integer", "minimum": 0, "description": "It is taken and not used."},
        "binary_data_output": {"type": "boolean", "description": "Whether all outputs come as bytes."},
    },
}
_PROTOCOL_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["inputs"],
    "properties": {
        "id": _COMMON_MEMBERS["id"],
        "parameters": _PROTOCOL_PARAMETERS,
        "inputs": {"type": "array", "items": _BINARY_INPUT},
        "outputs": {"type": "array", "items": _BINARY_OUTPUT},
    },
}
# The body of the protocol's own routes.
PROTOCOL_REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": _PROTOCOL_SCHEMA,
                "example": {
                    "inputs": [
                        {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": LINEAR_INFERENCE["inputs"]["x"][0]}
                    ]
                },
            },
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary"},
                "example": "JSON, and after it the bytes of tensors",
            },
        },
    }
}
