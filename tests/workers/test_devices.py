"""One artifact for each device: traced, verified and stored apart. tests/gpu does this on a real GPU."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from service.domain.model import ModelRef
from service.domain.trace_request import State
from service.sandbox.cancellation import Cancellation
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, TENANT, Trace
from tests.submissions import spec, tensor
from tests.workers.conftest import LIMITS, MIB, ArtifactOf, Work
from tracehouse.artifact.manifest import Artifact
from tracehouse.eager.inputs import InputFiles, materialise
from tracehouse.eager.model import LoadedModel
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.example_inputs import InlineTensor, RandomTensor
from workers.programs.runner import LoadedArtifact
from workers.worker import Worker

X = tensor([[1.0, 2.0, 3.0, 4.0]])
BOTH = ["cpu", "cuda"]


@pytest.fixture(scope="module")
def pretending(tier: Tier) -> Iterator[Zygote]:
    """Its children take cuda for the processor."""
    programs = [
        "workers.programs.tracer_warmup",
        "workers.programs.tracer",
        "workers.programs.reference",
        "workers.programs.runner",
        "workers.programs.packer",
    ]
    with Zygote(programs, Path(__file__).with_name("cuda_is_cpu.py"), tier=tier) as zygote:
        assert zygote.warnings == []
        yield zygote


def test_each_device_has_an_artifact_and_both_are_one_version(
    store: Store, pretending: Zygote, add: Callable[..., str]
) -> None:
    request_id = add(spec("prints_its_address_space", example_inputs=[X], devices=BOTH))
    Worker(store, pretending, NO_ENVIRONMENTS, LIMITS, attempts=2).run(request_id, Cancellation())

    request = store.trace_requests.get(TENANT, request_id)
    assert (request.state, request.verdict) == (State.SUCCEEDED, Verdict.VERIFIED), request.failure
    artifacts = [store.artifacts.get(TENANT, each.digest) for each in request.artifacts]
    assert [artifact.device for artifact in artifacts] == BOTH
    assert all(artifact.check.comparisons for artifact in artifacts)
    version = store.models.resolve(TENANT, ModelRef.parse("net"))
    assert version.artifacts == {each.device: each.digest for each in request.artifacts}

    told = [event.data for event in store.events.after(TENANT, request_id, 0, 100) if event.kind == "stage"]
    stages = ["loading", "tracing", "checking", "printing", "verifying"]
    assert [data["stage"] for data in told[2:]] == [*stages, *stages, "storing"]
    assert sorted(data["progress"] for data in told) == [data["progress"] for data in told]
    # CUDA maps far more addresses than any limit on them allows.
    log = "".join(store.events.log(TENANT, request_id))
    assert log == f"address space: {LIMITS.memory_mib * MIB}\naddress space: -1\n"


MAKES_TENSORS = """import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x + torch.ones(4, device=x.device)
"""


@pytest.mark.parametrize("probes", ["auto", "off"])
def test_the_contract_names_what_stays_on_one_device(artifact: ArtifactOf, probes: str) -> None:
    source = {"files": {"net.py": MAKES_TENSORS}, "entrypoint": "net:Net"}
    made = artifact({"model": "net", "source": source, "example_inputs": [X], "check": {"probes": probes}})

    [one] = made.contract.methods["forward"].devices or []
    assert (one.operator, one.device, one.place) == ("aten::ones", "cpu", "net.py:4")


def test_where_one_device_fails_the_request_fails_and_names_it(work: Work) -> None:
    """In the jail there is no GPU."""
    request = work(spec("linear", example_inputs=[X], devices=BOTH))

    assert request.failure is not None
    assert (request.state, request.failure.facts["device"]) == (State.FAILED, "cuda")
    assert (request.artifacts, request.model) == ([], None)


@pytest.mark.parametrize("name", ["linear", "refuses_to_be_copied"])
def test_a_model_and_its_copies_are_where_it_was_moved(load: Callable[..., LoadedModel], name: str) -> None:
    model = load(name)

    model.move("meta")

    for module in (model.module, model.copy_module()):
        assert {parameter.device.type for parameter in module.parameters()} == {"meta"}


@pytest.mark.parametrize(
    "tree",
    [
        InlineTensor.model_validate(X),
        RandomTensor.model_validate({"datatype": "INT64", "shape": [2], "random": {}}),
    ],
)
def test_inputs_are_on_the_device_that_is_traced_on(tree: InlineTensor | RandomTensor) -> None:
    (made,) = materialise([tree], InputFiles(lambda _: pytest.fail("no file")), "meta")

    assert made.device.type == "meta"


def test_an_artifact_is_asked_on_its_device(store: Store, trace: Trace) -> None:
    artifact: Artifact = trace(store.blobs, torch.nn.ReLU(), torch.zeros(2))
    with store.blobs.open(artifact.archive.digest) as archive:
        module = torch.jit.load(archive, map_location="meta")

    outputs = LoadedArtifact(module, artifact.contract, "meta").infer("forward", {"input": torch.ones(2)})

    assert outputs["output"].device.type == "meta"
