"""The tracer's warm-up: run in the process that every child is forked from, so that no child pays for what all need.

It is imported for its effect, after that of the runner. One request is traced from its source to its printouts, because
torch imports hundreds of modules at the first use of many things. It runs no backward pass: autograd refuses one in
children of a process that ever ran one.
"""

import gc
import io
import random
import warnings
from unittest import mock

import numpy as np
import torch
from torch._subclasses import FakeTensorMode

from service.protocol.tracer import Trace
from service.sandbox.channel import Buffer, Channel, Header
from tracehouse.differential.named_budgets import MOST_S
from tracehouse.spec.trace_spec import TraceSpec
from workers.programs import runner_warmup  # noqa: F401 - for its effect
from workers.programs.tracer import Tracing

# Its check imports all that any check does, and goes through its layers, for it branches on a value. With more
# operators each start of a service would take longer, and no check of another model less.
SOURCE = """\
import torch


class Warm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 1e9:
            return x
        return torch.softmax(self.linear(x), -1)
"""
SPEC = {
    "model": "warm",
    "source": {"files": {"warm.py": SOURCE}, "entrypoint": "warm:Warm"},
    "example_inputs": [{"datatype": "FP32", "shape": [1, 4], "random": {}}],
}


class _Nobody(Channel):
    """A channel that drops every message."""

    def __init__(self) -> None:
        pass

    def send(self, header: Header, *buffers: Buffer, until: float | None = None) -> None:
        pass


def _warm() -> None:
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
    tracing = Tracing(_Nobody(), request, [])
    # Where no GPU is seen, the mode asks CUDA itself for one. A process that has done so cannot be forked for CUDA.
    asks_nothing = mock.patch.object(FakeTensorMode, "avoid_device_init", False)
    with warnings.catch_warnings(), asks_nothing:
        warnings.simplefilter("ignore")
        tracing.run()
    tracing.forget()
    weights = io.BytesIO()
    torch.save({"weight": torch.zeros(1)}, weights)
    weights.seek(0)
    torch.load(weights, weights_only=True)
    _ = repr(torch.zeros(1))
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


_warm()
gc.collect()
