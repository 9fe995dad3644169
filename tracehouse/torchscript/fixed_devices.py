"""Fixed devices, read off a graph: no device other than the one that traced has to be there."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

import torch

from tracehouse.contract.devices import FIXED_DEVICES_MAX, FixedDevice
from tracehouse.introspection import script_graphs

# Operators that name their device.
_MOVES = {"aten::cpu": "cpu", "aten::cuda": "cuda"}
# Where an operator that makes a tensor of no other tensor puts it, if it is given no device.
_DEFAULT = "cpu"


def find_fixed_devices(module: torch.jit.ScriptModule) -> dict[str, list[FixedDevice]]:
    """Return the operators whose device is fixed by method, each line once; at most FIXED_DEVICES_MAX of a method."""
    return {
        name: [*islice(dict.fromkeys(_in_graph(method.inlined_graph)), FIXED_DEVICES_MAX)]
        for name, method in script_graphs.methods(module).items()
    }


def _in_graph(graph: script_graphs.Graph) -> Iterator[FixedDevice]:
    for node in script_graphs.nodes(graph):
        device = _fixed_device(node)
        if device is not None:
            line = script_graphs.line_of(node)
            yield FixedDevice(
                operator=node.kind(), device=device, file=line.file if line else None, line=line.line if line else None
            )


def _fixed_device(node: script_graphs.Node) -> str | None:
    """Return the device on which the node's result always is; None if the result follows the inputs."""
    if node.kind() in _MOVES:
        return _MOVES[node.kind()]
    place, takes_tensors = _device_argument(node.schema())
    if place is None:
        return None
    given = list(node.inputs())[place]
    if given.node().kind() != "prim::Constant":
        return None
    device = given.toIValue()
    return str(device) if device is not None else (None if takes_tensors else _DEFAULT)


@lru_cache(maxsize=1000)
def _device_argument(schema: str) -> tuple[int | None, bool]:
    """Return the place of the argument `device`, or None, and whether the operator takes tensors."""
    if schema == "(no schema)":
        return None, False
    arguments = torch._C.parse_schema(schema).arguments
    place = next((place for place, one in enumerate(arguments) if one.name == "device"), None)
    return place, any("Tensor" in str(one.type) for one in arguments)
