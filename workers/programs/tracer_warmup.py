"""The tracer's warm-up: run in the process that every child is forked from, so that no child pays for what all need.

It is imported for its effect. torch is loaded, on one thread; one request is traced from its source to its printouts,
and its archive is loaded and called in each form, because torch imports hundreds of modules at the first use of many
things. It runs no backward pass: autograd refuses one in children of a process that ever ran one.
"""

import gc
import io
import random
import warnings
from unittest import mock

import numpy as np
import torch
from torch._subclasses import FakeTensorMode

# Children that are forked from a process that ever ran more than one thread hang; a child raises the number again.
torch.set_num_threads(1)
torch.set_num_interop_threads(1)

from service.protocol.tracer import Trace  # noqa: E402
from service.sandbox.channel import Buffer, Channel, Header  # noqa: E402
from tracehouse.differential import golden  # noqa: E402
from tracehouse.differential.named_budgets import MOST_S  # noqa: E402
from tracehouse.spec.trace_spec import TraceSpec  # noqa: E402
from tracehouse.torch_values import low_precision  # noqa: E402
from workers.programs.tracer import Tracing  # noqa: E402

# It has the modules that most models are made of, and a branch on a value, for which the check does most work.
SOURCE = """\
import torch


class EveryKind(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.recurrence = torch.nn.LSTM(4, 4, batch_first=True)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, image):
        pooled = torch.relu(self.norm(self.convolution(image))).mean((2, 3)).unsqueeze(1)
        attended, _ = self.attention(pooled, pooled, pooled)
        remembered, _ = self.recurrence(attended)
        if remembered.sum() > 1e9:
            return remembered
        return torch.softmax(self.linear(remembered), -1)
"""
SPEC = {
    "model": "warm",
    "source": {"files": {"warm.py": SOURCE}, "entrypoint": "warm:EveryKind"},
    "example_inputs": [{"datatype": "FP32", "shape": [1, 3, 8, 8], "random": {}}],
}


class _ArchiveKeeper(Channel):
    """A channel that keeps the archive and drops every other message."""

    def __init__(self) -> None:
        self.archive = b""

    def send(self, header: Header, *buffers: Buffer, until: float | None = None) -> None:  # noqa: ARG002
        if header.get("name") == "archive":
            self.archive = b"".join(buffers)


def _warm() -> None:
    low_precision.leave_broken_tiles_out()
    spec = TraceSpec.model_validate(SPEC)
    request = Trace(
        spec=spec,
        conversion=spec.conversion,
        files={},
        device="cpu",
        threads=1,
        source_max_bytes=len(SOURCE),
        budget_most_s=MOST_S,
    )
    keeper = _ArchiveKeeper()
    tracing = Tracing(keeper, request, [])
    # Where no GPU is seen, the mode asks CUDA itself for one. A process that has done so cannot be forked for CUDA.
    asks_nothing = mock.patch.object(FakeTensorMode, "avoid_device_init", False)
    with warnings.catch_warnings(), asks_nothing:
        warnings.simplefilter("ignore")
        tracing.run()
        _load(keeper.archive)
    tracing.forget()
    weights = io.BytesIO()
    torch.save({"weight": torch.zeros(1)}, weights)
    weights.seek(0)
    torch.load(weights, weights_only=True)
    _ = repr(torch.zeros(1))
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def _load(archive: bytes) -> None:
    with torch.inference_mode():
        loaded: torch.jit.ScriptModule = torch.jit.load(io.BytesIO(archive), map_location="cpu")
        for form in (loaded, torch.jit.freeze(loaded), torch.jit.optimize_for_inference(loaded)):
            for _ in range(golden.CALLS_TO_SPECIALISE):
                form(torch.zeros(1, 3, 8, 8))


_warm()
gc.collect()
