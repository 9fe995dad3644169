"""The models whose traces are timed: their sources, their examples, and how long a trace may take at most."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from benchmarks.service_process import MODELS

OWN = Path(__file__).with_name("models")
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class LatencyModel:
    """A model in a file, with its example. `name` is the file's, and the factory's where `factory` names no other.

    `most_s` is the aim: so many seconds may pass from its submission to its verdict on two quiet cores.
    """

    name: str
    inputs: dict[str, Any]
    most_s: float | None = None
    factory: str = ""

    @property
    def files(self) -> dict[str, str]:
        """The text of the source's files."""
        own = OWN / f"{self.name}.py"
        source = own if own.exists() else MODELS / own.name
        return {one.name: one.read_text() for one in (source, MODELS / "torchvision_operators.py")}

    @property
    def entrypoint(self) -> str:
        return f"{self.name}:{self.factory or self.name}"

    def weights(self) -> bytes:
        """Return random weights for it, as a safetensors file."""
        sys.path[:0] = [str(one) for one in (MODELS, OWN) if str(one) not in sys.path]
        module, factory = self.entrypoint.split(":")
        torch.manual_seed(0)
        state: dict[str, torch.Tensor] = getattr(importlib.import_module(module), factory)().state_dict()
        return save({name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in state.items()})

    def submission(self, seed: int, probes: str = "auto", *, has_weights: bool = False) -> dict[str, Any]:
        """Return the request to trace it, another one for each seed. `has_weights` if they are sent beside it."""
        return {
            **({"weights": {"file": WEIGHTS}} if has_weights else {}),
            "model": self.name.replace("_", "-"),
            "source": {"files": self.files, "entrypoint": self.entrypoint},
            **self.inputs,
            "options": {"seed": seed},
            "check": {"probes": probes},
        }


def _floats(*shape: int) -> dict[str, Any]:
    return {"example_inputs": [{"datatype": "FP32", "shape": [*shape], "random": {"seed": 0}}]}


def _ids(batch: int, length: int) -> dict[str, Any]:
    # A mask with zeros: without them, transformers leaves the mask out.
    mask = [[1] * (length - 3 * row) + [0] * 3 * row for row in range(1, batch + 1)]
    ids = {"datatype": "INT64", "shape": [batch, length], "random": {"seed": 0, "low": 1, "high": 1000}}
    return {
        "example_kwarg_inputs": {
            "input_ids": ids,
            "attention_mask": {"datatype": "INT64", "shape": [batch, length], "data": mask},
        }
    }


LATENCY_MODELS = {
    one.name: one
    for one in (
        LatencyModel("linear", _floats(1, 16), most_s=0.3),
        LatencyModel("resnet18", _floats(1, 3, 224, 224), most_s=5),
        LatencyModel("vit", _floats(1, 3, 224, 224), most_s=5, factory="vit_tiny_patch16_224"),
        LatencyModel("bert_base", _ids(2, 32), most_s=12),
        LatencyModel("unet", _floats(1, 3, 128, 128)),
        LatencyModel("conformer", _floats(1, 80, 200)),
    )
}
