"""The worked example of the API's documentation: a small model that can be submitted as it is."""

from typing import Any

LINEAR_SOURCE = """\
import torch


class Linear(torch.nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.layer = torch.nn.Linear(features, 2)

    def forward(self, x):
        return torch.relu(self.layer(x))
"""

LINEAR_REQUEST: dict[str, Any] = {
    "model": "linear",
    "source": {
        "files": {"linear.py": LINEAR_SOURCE},
        "entrypoint": "linear:Linear",
        "init": {"kwargs": {"features": 4}},
    },
    "example_inputs": [{"datatype": "FP32", "shape": [1, 4], "random": {"seed": 0}}],
}

LINEAR_INFERENCE: dict[str, Any] = {"inputs": {"x": [[1.0, 2.0, 3.0, 4.0]]}}

# The same request with its source as an uploaded file.
LINEAR_UPLOAD: dict[str, Any] = LINEAR_REQUEST | {
    "source": {"file": "linear.py", "entrypoint": "linear:Linear", "init": {"kwargs": {"features": 4}}}
}
