"""ONNX Runtime: an archive as a graph of ONNX, which that computes.

A process imports this before its jail closes, for the packages read files when they are imported or first used. No
telemetry: ONNX Runtime for Linux has a thread and a database for it unless the environment says otherwise.
"""

import io
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # also where no jail has set it

import onnxruntime

from tracehouse.forms import onnx_operators

# torch's types leave out what is used of this.
_onnx: Any = torch.onnx
# The oldest in which a layer norm is one operator. Later ones have nothing that is needed here.
_OPSET = 17
_FATAL = 4  # ONNX Runtime would print what is raised, too


class OnnxForm:
    """An archive whose `forward` has tensors of FP32 as arguments, and returns such, in tuples or alone.

    `example` has its arguments in their order, and `free` the dims of each that have no fixed size, with names that
    dims of one size share. It computes with as many threads as torch has.

    Raises NotPorted, and whatever ONNX Runtime raises.
    """

    def __init__(
        self, module: torch.jit.ScriptModule, example: Mapping[str, torch.Tensor], free: Sequence[Mapping[int, str]]
    ) -> None:
        self._names = [*example]
        self._like = module(*example.values())
        self._session = _open(_export(module, [*example.values()], free))
        self._inputs = [one.name for one in self._session.get_inputs()]
        if len(self._inputs) != len(self._names):
            raise NotPorted("it has an input that it does not use, which no graph of ONNX has")

    def forward(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        given = [*args, *(kwargs[name] for name in self._names[len(args) :])]
        arrays = (one.contiguous().numpy() for one in given)
        outputs = self._session.run(None, dict(zip(self._inputs, arrays, strict=True)))
        return _nest(self._like, iter(outputs))


class NotPorted(Exception):
    """The archive cannot be written as a graph of ONNX; the text says why."""


def _export(
    module: torch.jit.ScriptModule, example: Sequence[torch.Tensor], free: Sequence[Mapping[int, str]]
) -> bytes:
    """Raises NotPorted."""
    file = io.BytesIO()
    names = [f"input.{place}" for place in range(len(example))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        try:
            _onnx.export(
                module,
                (*example,),
                file,
                dynamo=False,
                opset_version=_OPSET,
                input_names=names,
                dynamic_axes=dict(zip(names, free, strict=True)),
            )
        except torch.onnx.errors.OnnxExporterError as error:
            why = " ".join(str(error).partition("[Caused by")[0].split())
            raise NotPorted(f"it has no graph of ONNX: {why}") from error
    return file.getvalue()


def _open(graph: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL
    # It has no threads of its own that would wait for work in a loop, and keeps no plan of memory for each shape.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _nest(like: Any, outputs: Iterator[Any]) -> Any:
    """Return the outputs, which are as many tensors as `like` has, nested as those are."""
    if isinstance(like, torch.Tensor):
        return torch.from_numpy(next(outputs))
    return tuple(_nest(one, outputs) for one in like)


def _warm() -> None:
    """Have torch import what it imports when a graph is exported."""
    with torch.inference_mode():
        module = torch.jit.trace(torch.nn.Linear(1, 1), torch.zeros(1, 1), check_trace=False)
        _export(module, [torch.zeros(1, 1)], [{0: "rows"}])


onnx_operators.register(_OPSET)
_warm()
