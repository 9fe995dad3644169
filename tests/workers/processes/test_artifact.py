"""The process that has the artifact, beside that of the eager model."""

import os
import time
from pathlib import Path

import pytest
import torch
from pydantic import JsonValue

from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import Buffer
from service.sandbox.zygote import Zygote
from tests.conftest import PATIENCE_S
from tests.submissions import spec, tensor
from tests.workers.conftest import LIMITS
from tracehouse.contract.structure import Argument, TensorLeaf
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.comparison import Answer
from tracehouse.spec.trace_spec import TraceSpec
from tracehouse.tensors.tensor import Tensor
from tracehouse.torch_values.tensors import pack
from workers.processes.artifact import RUNNER, ArtifactProcess


class Multiplied(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="nothing says here how many threads a process has")
def test_asked_alone_it_has_the_threads_of_the_eager_model_too(
    torch_zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.rand(256, 256)
    torch.jit.save(torch.jit.trace(Multiplied(), x), tmp_path / "archive")
    inputs: list[Tensor] = pack({"x": x})
    call = BoundCall("example", "forward", [Argument(name="x", structure=TensorLeaf(tensor="x"))], inputs)
    limits = LIMITS.model_copy(update={"threads": 2})

    with (
        (tmp_path / "archive").open("rb") as archive,
        torch_zygote.fork(RUNNER, limits.for_child("cpu"), [archive.fileno()], profile="infer") as child,
    ):
        process = ArtifactProcess(child, limits, Cancellation(), time.monotonic() + PATIENCE_S)
        process.start(TraceSpec.model_validate(spec("linear", example_inputs=[tensor([[1.0]])])), "cpu")
        process.wait()
        send, told, threads = child.channel.send, list[object](), list[int]()

        def note(header: dict[str, JsonValue], *body: Buffer, until: float) -> None:
            told.append(header["threads"])
            send(header, *body, until=until)

        monkeypatch.setattr(child.channel, "send", note)
        for ask in (process.ask, process.ask_alone, process.ask, process.ask):
            ask(call, inputs, seed=0)
            assert isinstance(process.answer(), Answer)
            threads.append(len(os.listdir(f"/proc/{child.pid}/task")))

    beside, alone, *_ = threads
    assert alone > beside
    assert told == [None, 2, 1, None]
