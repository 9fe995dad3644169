"""The doctor, a child program: it reports torch's version, its devices, and whether it can trace here."""

import torch
from pydantic import JsonValue

from service.sandbox.channel import Channel


def main(channel: Channel, files: list[int]) -> None:  # noqa: ARG001 - every program is called like this
    devices: list[JsonValue] = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    traced = torch.jit.trace(torch.nn.Linear(2, 2).eval(), torch.zeros(1, 2), check_trace=False)
    channel.send(
        {
            "torch": torch.__version__,
            "devices": devices,
            "traces": "aten::linear" in str(traced.inlined_graph),
        }
    )
