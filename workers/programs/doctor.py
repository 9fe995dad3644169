"""The doctor, a child program: it reports torch's version, its devices, and whether it can trace here."""

import importlib
from importlib import metadata

import torch
from pydantic import JsonValue

from service.sandbox.channel import Channel

_FAULT_MAX_CHARACTERS = 500


def main(channel: Channel, files: list[int]) -> None:  # noqa: ARG001 - every program is called like this
    devices: list[JsonValue] = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    traced = torch.jit.trace(torch.nn.Linear(2, 2).eval(), torch.zeros(1, 2), check_trace=False)
    channel.send(
        {
            "torch": torch.__version__,
            "devices": devices,
            "traces": "aten::linear" in str(traced.inlined_graph),
            "torchvision_fault": find_torchvision_fault(),
        }
    )


def find_torchvision_fault() -> str | None:
    """Return why torchvision cannot be imported, which timm imports; None if it can be, or is not installed."""
    try:
        metadata.version("torchvision")
    except metadata.PackageNotFoundError:
        return None
    try:
        importlib.import_module("torchvision")
    except Exception as error:  # noqa: BLE001 - a package that does not fit torch raises anything
        return f"{type(error).__name__}: {error}"[:_FAULT_MAX_CHARACTERS]
    return None
