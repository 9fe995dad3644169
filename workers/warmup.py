"""Warms the process that every child is forked from, so that no child pays for what all of them need.

Imported for its effect: torch loaded and on one thread, and one trace, save, load, freeze and three calls done.
"""

import gc
import io
import json  # noqa: F401
import linecache  # noqa: F401
import random
import traceback  # noqa: F401
import warnings
import zipfile  # noqa: F401

import numpy as np
import safetensors.torch
import torch

# A process that ever ran more than one thread hangs every child forked from it; a child raises the number again.
torch.set_num_threads(1)
torch.set_num_interop_threads(1)


class _EveryKind(torch.nn.Module):
    """A little of what most models are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.recurrence = torch.nn.LSTM(4, 4, batch_first=True)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        pooled = torch.relu(self.norm(self.convolution(image))).mean((2, 3)).unsqueeze(1)
        attended, _ = self.attention(pooled, pooled, pooled)
        remembered, _ = self.recurrence(attended)
        return torch.softmax(self.linear(remembered), -1)


def _warm() -> None:
    model, image = _EveryKind().eval(), torch.zeros(1, 3, 8, 8)
    archive = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and says so at each call
        traced = torch.jit.trace_module(model, {"forward": (image,)}, check_trace=True)
        torch.jit.save(traced, archive)
        archive.seek(0)
        loaded = torch.jit.load(archive)
        for form in (loaded, torch.jit.freeze(loaded.eval())):
            for _ in range(3):  # torch's profiling executor specialises on the second and third call
                form(image)
    _ = str(traced.inlined_graph), traced.code, repr(image)
    weights = io.BytesIO()
    torch.save(model.state_dict(), weights)
    weights.seek(0)
    torch.load(weights, weights_only=True)
    safetensors.torch.load(safetensors.torch.save({"image": image}))
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


_warm()
gc.collect()
