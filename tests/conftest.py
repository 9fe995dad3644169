"""What the tests of serving and of the API share: a process to fork runners from, and artifacts traced here."""

import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from service.domain.artifact import Artifact, Versions
from service.domain.blob import BlobRef
from service.domain.trace_check import TorchCheck, TraceCheck, Verdict
from service.sandbox.zygote import Zygote
from service.storage.blobs import Blobs

if TYPE_CHECKING:
    import torch


class Trace(Protocol):
    def __call__(
        self,
        blobs: Blobs,
        module: "torch.nn.Module",
        *args: Any,
        verdict: Verdict = ...,
        freeze: bool = ...,
        **kwargs: Any,
    ) -> Artifact: ...


@pytest.fixture(scope="session")
def runner_zygote() -> Iterator[Zygote]:
    with Zygote(["workers.warmup", "workers.runner"]) as zygote:
        yield zygote


@pytest.fixture(scope="session")
def trace() -> Trace:
    """An artifact of the module's `forward` on these arguments, its files kept as blobs, and nothing checked."""
    return _trace


def _trace(
    blobs: Blobs,
    module: "torch.nn.Module",
    *args: Any,
    verdict: Verdict = Verdict.VERIFIED,
    freeze: bool = False,
    **kwargs: Any,
) -> Artifact:
    # Here and not above: most tests need no torch, whose import takes seconds.
    import torch

    from workers import structure
    from workers.tracing import contract, golden
    from workers.tracing.call import bake, bind

    module.eval()
    call = bind(module, "forward", "forward", args, kwargs)
    with torch.no_grad():
        outputs = call.run(module)
    case = golden.Case("forward", call.tensors, structure.tensors(outputs, "output"))
    archive = io.BytesIO()
    bake(module, {"forward": call})
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        inputs = {"forward": call.handed_over()}
        torch.jit.save(torch.jit.trace_module(module, inputs, strict=False, check_trace=False), archive)
    return Artifact(
        device="cpu",
        entrypoint="net:Net",
        contract=contract.observe({"forward": call}, {"forward": outputs}),
        check=TraceCheck(verdict=verdict, comparisons=[], findings=[], torch=TorchCheck(ran=False)),
        archive=_keep(blobs, archive.getvalue()),
        printouts=_keep(blobs, b"[]"),
        golden=_keep(blobs, golden.write([case])),
        freeze=freeze,
        submodules=[],
        parameters=[],
        buffers=[],
        versions=Versions(torch=torch.__version__, python="3", tracehouse="0"),
    )


def _keep(blobs: Blobs, data: bytes) -> BlobRef:
    with blobs.stage() as staged:
        staged.write(data)
        return staged.commit()
