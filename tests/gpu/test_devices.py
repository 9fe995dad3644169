"""What a request's devices give on a real GPU."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from service.domain.eager_outputs import EagerOutputs
from service.domain.trace_request import State, TraceRequest
from service.sandbox.cancellation import Cancellation
from service.sandbox.limits import Limits
from service.sandbox.zygote import Zygote
from service.serving.pool import Pool
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, TENANT
from tests.pool_limits import pool_limits
from tests.submissions import spec
from tests.workers.conftest import LIMITS
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import ShapeMismatch
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import TraceSpec
from tracehouse.tensors.tensor import Datatype, Tensor, array
from workers.worker import Worker

X = {"datatype": "FP32", "shape": [2, 4], "random": {"seed": 1}}
BOTH = ["cpu", "cuda"]

Work = Callable[..., TraceRequest]


@pytest.fixture
def work(store: Store, zygote: Zygote) -> Work:
    """The request as it stands after one attempt."""

    def work(name: str, **members: Any) -> TraceRequest:
        submitted = TraceSpec.model_validate(spec(name, example_inputs=[X], **members))
        request = TraceRequest.new(submitted, {}, torch_version="2", tenant=TENANT)
        store.trace_requests.add(request)
        Worker(store, zygote, NO_ENVIRONMENTS, LIMITS, attempts=2).run(request.id, Cancellation())
        return store.trace_requests.get(TENANT, request.id)

    return work


def answers(store: Store, zygote: Zygote, artifact: Artifact, *given: Tensor) -> list[list[float]]:
    """What its runner answers to each, as the service asks it."""

    async def asked() -> list[list[float]]:
        limits = pool_limits(child=Limits(address_space_mib=8192, cpu_s=None), infer_timeout_s=60)
        pool = Pool(zygote, store.blobs, limits, devices=BOTH)
        found = []
        for x in given:
            accepted = artifact.contract.method("forward").accept([x]).tensors
            (output,) = await pool.infer(TENANT, artifact, artifact.digest, "forward", accepted, seed=None)
            found.append(array(output.datatype, output.data).tolist())
        await pool.close(0)
        return found

    return asyncio.run(asked())


def x(*shape: int) -> Tensor:
    return Tensor("x", Datatype.FP32, shape, np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).tobytes())


def artifacts_of(store: Store, request: TraceRequest) -> list[Artifact]:
    assert request.state is State.SUCCEEDED, request.failure
    return [store.artifacts.get(TENANT, each.digest) for each in request.artifacts]


def test_each_device_has_an_artifact_that_answers_there(work: Work, store: Store, zygote: Zygote) -> None:
    """The trace of one bakes its device in, so that it could not answer on the other."""
    request = work("makes_a_tensor_beside_its_input", devices=BOTH)

    of_cpu, of_cuda = artifacts_of(store, request)
    assert (of_cpu.device, of_cuda.device, request.verdict) == ("cpu", "cuda", Verdict.VERIFIED)
    assert request.model is not None
    ((here,), (there,)) = answers(store, zygote, of_cpu, x(2, 4)), answers(store, zygote, of_cuda, x(2, 4))
    assert np.allclose(here, there, rtol=1e-4, atol=1e-5)


def test_an_artifact_of_cuda_alone(work: Work, store: Store, zygote: Zygote) -> None:
    (artifact,) = artifacts_of(store, work("linear", devices=["cuda"]))

    first, second = answers(store, zygote, artifact, x(2, 4), x(2, 4))
    assert (artifact.device, first) == ("cuda", second)


def test_inputs_outside_the_contract_are_refused_on_cuda_too(work: Work, store: Store, zygote: Zygote) -> None:
    (artifact,) = artifacts_of(store, work("linear", devices=["cuda"]))

    with pytest.raises(ShapeMismatch):
        answers(store, zygote, artifact, x(2, 5))


def test_a_model_with_a_device_baked_in_fails_where_it_does_not_run_and_names_it(work: Work) -> None:
    assert work("stays_on_the_processor").verdict is Verdict.VERIFIED

    request = work("stays_on_the_processor", devices=BOTH)

    assert request.failure is not None
    assert (request.state, request.failure.facts["device"]) == (State.FAILED, "cuda")
    assert request.failure.facts["file"] == "stays_on_the_processor.py"


def test_a_branch_on_a_value_is_found_on_cuda_too(work: Work) -> None:
    request = work("branches_on_data", devices=["cuda"])

    assert (request.state, request.verdict) == (State.SUCCEEDED, Verdict.REJECTED)


def test_random_numbers_that_cuda_draws_are_seen(work: Work) -> None:
    request = work("dropout_left_on", devices=["cuda"])

    assert request.state is State.SUCCEEDED
    assert "stochastic" in [finding.kind for finding in request.findings]


def test_mode_eager_runs_on_cuda(work: Work, store: Store) -> None:
    request = work("linear", devices=["cuda"], mode="eager")

    assert request.outputs is not None, request.failure
    with store.blobs.open(request.outputs.digest) as file:
        (output,) = EagerOutputs(file).outputs(0)
    assert output.shape == (2, 3)
