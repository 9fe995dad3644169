"""Submissions of tests/models, as a client would send them."""

from pathlib import Path
from typing import Any

import torch

MODELS = Path(__file__).parent / "models"


def text(name: str) -> str:
    return (MODELS / f"{name}.py").read_text()


def spec(name: str, entrypoint: str = "Net", **members: Any) -> dict[str, Any]:
    """A submission of one of tests/models; with `example_inputs` or `methods` among the members."""
    source = {"files": {f"{name}.py": text(name)}, "entrypoint": f"{name}:{entrypoint}"}
    return {"model": "net", "source": source, **members}


def tensor(data: Any, datatype: str = "FP32") -> dict[str, Any]:
    value = torch.tensor(data)
    return {"datatype": datatype, "shape": list(value.shape), "data": data}


# What the model of that name takes.
EVERY_DATATYPE = [
    tensor([1.5], "FP16"),
    tensor([1.5, -2.0], "BF16"),
    tensor([[1e300]], "FP64"),
    tensor(7, "INT64"),
    {"datatype": "UINT8", "shape": [0, 2], "data": []},
    tensor([True, False], "BOOL"),
]
