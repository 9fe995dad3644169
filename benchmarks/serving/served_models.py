"""Served models: their sources and weights, and what is asked of them. Their random weights are always the same."""

import importlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import torch
from safetensors.torch import save

_DIRECTORY = Path(__file__).parents[1] / "models"
_WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class ServedModel:
    """A model with one input, of rows of this shape, and one output. `low` to `high` are the values of integers."""

    entrypoint: str
    input_name: str
    row: tuple[int, ...]
    dtype: str = "float32"
    high: int = 0

    def build(self) -> torch.nn.Module:
        sys.path[:0] = [str(_DIRECTORY)] if str(_DIRECTORY) not in sys.path else []
        module, _, factory = self.entrypoint.partition(":")
        torch.manual_seed(0)
        built: torch.nn.Module = getattr(importlib.import_module(module), factory)()
        return built.eval()

    def question(self) -> np.ndarray:
        """Return one row."""
        drawing, shape = np.random.default_rng(0), (1, *self.row)
        if self.high:
            return drawing.integers(1, self.high, shape, self.dtype)
        return drawing.standard_normal(shape).astype(self.dtype)

    def answer(self) -> np.ndarray:
        """Return eager's answer to the question."""
        with torch.inference_mode():
            answer: np.ndarray = self.build()(torch.from_numpy(self.question())).numpy()
        return answer

    @property
    def datatype(self) -> str:
        """The protocol's name of it."""
        return "INT64" if self.dtype == "int64" else "FP32"

    def settings(self, threads: int) -> dict[str, str]:
        """Return what a server's program is told of it, as environment variables."""
        row = ",".join(map(str, self.row))
        return {"INPUT": self.input_name, "DTYPE": self.dtype, "ROW": row, "THREADS": str(threads)}

    def weights(self) -> bytes:
        return save({name: tensor.contiguous() for name, tensor in self.build().state_dict().items()})

    def submission(self) -> dict[str, Any]:
        """Return the request to trace it, with weights beside it."""
        file = _DIRECTORY / f"{self.entrypoint.partition(':')[0]}.py"
        values = {"seed": 0, **({"low": 1, "high": self.high} if self.high else {})}
        return {
            "model": "net",
            "source": {"files": {file.name: file.read_text()}, "entrypoint": self.entrypoint},
            "weights": {"file": _WEIGHTS},
            "example_inputs": [{"datatype": self.datatype, "shape": [1, *self.row], "random": values}],
        }

    def trace(self, client: httpx.Client) -> None:
        """Have the service trace it, and wait until it is verified."""
        parts = {
            "request": (None, orjson.dumps(self.submission()), "application/json"),
            "files": (_WEIGHTS, self.weights()),
        }
        traced = client.post("/trace", files=parts).raise_for_status().json()
        while traced["state"] in ("queued", "running"):
            time.sleep(1)
            traced = client.get(f"/trace/{traced['id']}").raise_for_status().json()
        assert traced["verdict"] == "verified", traced


SERVED_MODELS = {
    "tiny": ServedModel("mlp:tiny", "input", (16,)),
    "wide": ServedModel("mlp:wide", "input", (1024,)),
    "resnet": ServedModel("resnet:resnet", "pictures", (3, 224, 224)),
    "encoder": ServedModel("encoder:encoder", "tokens", (64,), "int64", 8192),
}
