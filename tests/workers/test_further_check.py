"""Further checks by a real worker: the same archive, checked beside the same model with more time."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from service.domain.errors import ArchiveWithoutModel, ArtifactWithdrawn, SubmissionGone
from service.domain.outcome import Succeeded
from service.domain.trace_request import ModelVersionRef, TraceRequest
from service.engine.further_check import FurtherChecks
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, TENANT
from tests.submissions import spec, tensor
from tests.workers.conftest import BUDGET_S, LIMITS, Work
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.differential import batch_rows
from tracehouse.differential.comparison import ComparisonResult, Difference
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import CheckBudget
from tracehouse.tensors.tensor import Datatype, TensorSpec
from workers.processes.client import EagerAnswer
from workers.verification.model_processes import ModelProcesses
from workers.worker import Worker

X = tensor([[1.0, 2.0, 3.0, 4.0]])
# Less than any step of a check takes.
NO_TIME = {"budget_s": 1e-6}

GoOn = Callable[..., TraceRequest]


@pytest.fixture
def go_on(store: Store, torch_zygote: Zygote) -> GoOn:
    """The request that goes on with the check of a request's first artifact, as it stands after one attempt."""

    def go_on(request: TraceRequest, budget_s: float = BUDGET_S) -> TraceRequest:
        checks = FurtherChecks(store, NO_ENVIRONMENTS, "2")
        planned = checks.plan(TENANT, request.artifacts[0].digest, CheckBudget(budget_s=budget_s))
        store.trace_requests.add(planned)
        Worker(store, torch_zygote, NO_ENVIRONMENTS, LIMITS, attempts=2).run(planned.id, Cancellation())
        return store.trace_requests.get(TENANT, planned.id)

    return go_on


def artifact_of(store: Store, request: TraceRequest) -> Artifact:
    assert request.failure is None, request.failure
    return store.artifacts.get(TENANT, request.artifacts[0].digest)


def takes(artifact: Artifact, *shape: int) -> bool:
    return artifact.contract.methods["forward"].takes([TensorSpec(name="x", datatype=Datatype.FP32, shape=shape)])


def withdrawn_by(store: Store, request: TraceRequest) -> str | None:
    digest = request.artifacts[0].digest
    return store.artifacts.withdrawals(TENANT, [digest]).get(digest)


def test_a_check_that_goes_on_widens_the_contract_of_the_same_archive(work: Work, go_on: GoOn, store: Store) -> None:
    first = work(spec("linear", example_inputs=[X], check=NO_TIME))
    narrow = artifact_of(store, first)

    later = go_on(first)
    wide = artifact_of(store, later)

    assert [takes(narrow, rows, 4) for rows in (1, 2, 100)] == [True, False, False]
    assert [takes(wide, rows, 4) for rows in (1, 2, 100)] == [True, True, True]
    assert (wide.archive, wide.printouts, wide.parameters) == (narrow.archive, narrow.printouts, narrow.parameters)
    assert wide.continues == first.artifacts[0].digest == later.artifacts[0].continues
    assert (later.model, later.promotion and later.promotion.promoted) == (ModelVersionRef(name="net", version=2), True)
    assert withdrawn_by(store, first) is None


def test_the_layers_of_a_further_check_are_those_of_the_model_and_not_of_an_archive(
    work: Work, go_on: GoOn, store: Store
) -> None:
    wide = artifact_of(store, go_on(work(spec("linear", example_inputs=[X], check=NO_TIME))))

    assert {"observe", "prove", "probe", "batch"} <= {layer.name for layer in wide.check.layers}
    assert {region.basis for region in wide.contract.methods["forward"].regions} == {"proven"}
    assert wide.check.verdict is Verdict.VERIFIED


def test_a_check_that_rejects_withdraws_what_it_went_on_from(work: Work, go_on: GoOn, store: Store) -> None:
    first = work(spec("branches_on_large_values", example_inputs=[X], check={"probes": "off"}))
    assert first.verdict is Verdict.VERIFIED

    later = go_on(first)

    assert (later.verdict, later.model) == (Verdict.REJECTED, None)
    assert "contract-refuted" in {finding.kind for finding in later.findings}
    assert withdrawn_by(store, first) == later.id


def test_the_same_content_is_traced_anew_once_its_artifact_is_withdrawn(
    work: Work, go_on: GoOn, add: Callable[..., str]
) -> None:
    submitted = spec("branches_on_large_values", example_inputs=[X], check={"probes": "off", "budget_s": BUDGET_S})
    first = work(submitted)
    assert add(submitted) == first.id

    go_on(first)

    assert add(submitted) != first.id


def test_a_check_that_finds_less_leaves_the_contract_as_it_was(work: Work, go_on: GoOn, store: Store) -> None:
    first = work(spec("linear", example_inputs=[X]))

    later = go_on(first, NO_TIME["budget_s"])

    assert artifact_of(store, later).contract == artifact_of(store, first).contract
    assert (later.verdict, later.model) == (Verdict.VERIFIED, None)
    assert "contract-kept" in {finding.kind for finding in later.findings}
    assert withdrawn_by(store, first) is None


def test_a_check_of_what_was_already_checked_deeply_makes_no_version(work: Work, go_on: GoOn, store: Store) -> None:
    first = work(spec("linear", example_inputs=[X]))

    later = go_on(first)

    assert later.model is None
    assert [version.version for version in store.models.get(TENANT, "net").versions] == [1]


def test_a_contract_that_promises_too_much_is_refuted_at_these_sizes_alone(
    work: Work, go_on: GoOn, store: Store
) -> None:
    """The artifact before promises a length that its archive answers wrongly, as if its check had missed that."""
    first = work(spec("wrong_at_other_sizes", "BranchesAtALength", example_inputs=[X], check=NO_TIME))
    promised = with_lengths(store, first, 1, 64)

    later = go_on(promised)
    left = artifact_of(store, later)

    assert [takes(left, 1, length) for length in (4, 12, 13)] == [True, True, False]
    assert contract_in(store, left) == left.contract, "whoever downloads the archive reads what is true of it"
    assert withdrawn_by(store, promised) == later.id
    assert later.verdict is Verdict.RESTRICTED
    assert later.model is not None
    assert later.promotion is not None
    assert later.promotion.promoted, "nothing else would answer"


def test_a_contract_that_lets_the_keys_of_a_dict_come_in_any_order_is_refuted_if_they_may_not(
    work: Work, go_on: GoOn, store: Store
) -> None:
    parts = {"a": tensor([1.0, 2.0]), "b": tensor([3.0, 4.0])}
    first = work(spec("reads_the_order_of_a_dict", example_inputs=[parts, {"w": 3, "h": 5}]))
    assert "parts" in artifact_of(store, first).contract.methods["forward"].key_orders
    promised = promising(store, first, key_orders={})

    later = go_on(promised)

    assert [withdrawn_by(store, one) for one in (first, promised)] == [None, later.id]
    assert artifact_of(store, later).contract.methods["forward"].key_orders


def test_a_contract_that_promises_the_same_answer_each_time_is_refuted_if_random_numbers_are_drawn(
    work: Work, go_on: GoOn, store: Store
) -> None:
    first = work(spec("adds_little_noise", example_inputs=[X]))
    assert artifact_of(store, first).contract.methods["forward"].stochastic
    promised = promising(store, first, stochastic=False)

    later = go_on(promised)

    assert withdrawn_by(store, promised) == later.id


def test_a_contract_that_joins_rows_is_refuted_if_they_depend_on_one_another(
    work: Work, go_on: GoOn, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are seen to depend in the second check alone, as if the first had drawn other values."""
    first = work(spec("linear", example_inputs=[X]))
    assert artifact_of(store, first).contract.methods["forward"].batch is not None
    monkeypatch.setattr(batch_rows, "find_row_dependence", lambda *_, **__: "'output' differs")

    later = go_on(first)

    assert withdrawn_by(store, first) == later.id
    assert artifact_of(store, later).contract.methods["forward"].batch is None


def test_a_contract_that_takes_a_datatype_is_refuted_if_its_answers_differ(
    work: Work, go_on: GoOn, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They differ in the second check alone, as if the first had drawn other values."""
    source = "import torch\ndef Net(x):\n    return x * 2\n"
    files = {"files": {"net.py": source}, "entrypoint": "net:Net"}
    first = work({"model": "net", "source": files, "example_inputs": [{**X, "datatype": "BF16"}]})
    assert Datatype.FP16 in artifact_of(store, first).contract.methods["forward"].inputs[0].datatypes
    compare = ModelProcesses.compare

    def find_difference(processes: ModelProcesses, eager: EagerAnswer, *others: Any) -> FormComparisons:
        is_half = any(leaf.datatype is Datatype.FP16 for leaf in eager.answer.leaves.values())
        differing = FormComparisons(ComparisonResult(None, Difference("output", "it differs")))
        return differing if is_half else compare(processes, eager, *others)

    monkeypatch.setattr(ModelProcesses, "compare", find_difference)

    later = go_on(first)

    assert withdrawn_by(store, first) == later.id
    assert Datatype.FP16 not in artifact_of(store, later).contract.methods["forward"].inputs[0].datatypes


def contract_in(store: Store, artifact: Artifact) -> Contract:
    """The contract that the archive carries."""
    carried = {"contract.json": b""}
    with store.blobs.open(artifact.archive.digest) as file:
        torch.jit.load(io.BytesIO(file.read()), _extra_files=carried)
    return Contract.model_validate_json(carried["contract.json"])


def with_lengths(store: Store, request: TraceRequest, low: int, high: int) -> TraceRequest:
    """Another request, whose artifact is the request's with a contract that accepts these lengths."""
    made = artifact_of(store, request)
    [method] = made.contract.methods.values()
    [x] = method.inputs
    shape = {"shape": (1, "length"), "fixed": {"0": "untried"}}
    changes = {
        "inputs": [InputSpec.model_validate({**dict(x), **shape})],
        "outputs": [one.model_copy(update={"shape": (1, "length")}) for one in method.outputs],
        "regions": [Region(spans={"length": [Span(low=low, high=high)]}, basis="tested")],
    }
    return promising(store, request, **changes)


def promising(store: Store, request: TraceRequest, **changes: Any) -> TraceRequest:
    """Another request, whose artifact is the request's with these changes of its contract."""
    made = artifact_of(store, request)
    [method] = made.contract.methods.values()
    wider = MethodContract.model_validate({**dict(method), **changes})
    artifact = made.model_copy(update={"contract": Contract(methods={"forward": wider})})
    forced = request.spec.model_copy(update={"force": True})
    other = TraceRequest.new(forced, request.files, torch_version="2", tenant=TENANT)
    store.trace_requests.add(other)
    assert store.trace_requests.claim(other.id) is not None
    store.trace_requests.finish(other.id, 1, Succeeded.of(forced, [artifact]))
    return store.trace_requests.get(TENANT, other.id)


@pytest.mark.parametrize(
    ("mode", "name", "form"), [("script", "branches_on_data", "scripted"), ("auto", "branches_in_a_part", "mixed")]
)
def test_what_was_scripted_is_checked_as_it_was_made(
    work: Work, go_on: GoOn, store: Store, mode: str, name: str, form: str
) -> None:
    first = work(spec(name, example_inputs=[X], mode=mode))
    assert artifact_of(store, first).form == form

    later = go_on(first)

    before, now = artifact_of(store, first), artifact_of(store, later)
    assert (now.form, now.archive, now.attempts) == (form, before.archive, before.attempts)
    assert later.verdict == first.verdict


def test_the_other_buckets_stay_beside_the_one_whose_check_goes_on(work: Work, go_on: GoOn, store: Store) -> None:
    inputs = [tensor([[1, 2, 3, 4]], "INT64"), tensor([[1, 1, 0, 1]], "INT64")]
    dynamic = {"ids": {"1": "seq"}, "mask": {"1": "seq"}}
    first = work(
        spec(
            "keeps_its_length", "Unscriptable", example_inputs=inputs, dynamic=dynamic, buckets={"seq": [2, 6]},
            check=NO_TIME,
        )
    )  # fmt: skip
    assert [one.bucket for one in first.artifacts] == [{"seq": 2}, {"seq": 6}]

    later = go_on(first)

    assert [one.bucket for one in later.artifacts] == [{"seq": 2}, {"seq": 6}]
    assert later.artifacts[0].continues == first.artifacts[0].digest
    assert later.artifacts[1] == first.artifacts[1]


def test_a_check_whose_files_were_deleted_cannot_go_on(work: Work, go_on: GoOn, store: Store) -> None:
    file = {"file": "inputs.npz", "key": "x"}
    first = work(spec("linear", example_inputs=[file], check=NO_TIME), {"inputs.npz": npz(x=np.ones((1, 4), "f4"))})
    path(store, first.files["inputs.npz"].digest).unlink()

    with pytest.raises(SubmissionGone, match=r"inputs\.npz") as refused:
        go_on(first)

    assert refused.value.facts["files"] == ["inputs.npz"]


def npz(**arrays: Any) -> bytes:
    data = io.BytesIO()
    np.savez(data, **arrays)
    return data.getvalue()


def path(store: Store, digest: str) -> Path:
    return Path(store.blobs._path(digest))


def test_the_check_of_an_uploaded_archive_cannot_go_on(work: Work, go_on: GoOn) -> None:
    data = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(4, 2)), data)
    source = {"archive": "net.pt"}
    first = work({"model": "net", "source": source, "example_inputs": [X]}, {"net.pt": data.getvalue()})

    with pytest.raises(ArchiveWithoutModel):
        go_on(first)


def test_a_withdrawn_artifact_is_not_checked_again(work: Work, go_on: GoOn) -> None:
    first = work(spec("branches_on_large_values", example_inputs=[X], check={"probes": "off"}))
    later = go_on(first)

    with pytest.raises(ArtifactWithdrawn) as refused:
        go_on(first, 5.0)

    assert refused.value.facts["trace_request"] == later.id


@pytest.fixture
def checks(store: Store) -> FurtherChecks:
    return FurtherChecks(store, NO_ENVIRONMENTS, "2")


def test_an_idle_worker_finds_a_check_that_was_cut_once(work: Work, store: Store, checks: FurtherChecks) -> None:
    first = work(spec("linear", example_inputs=[X], check=NO_TIME))

    found = checks.find_idle("cpu")

    assert found is not None
    assert (found.continues, found.is_idle, found.spec.check.budget) == (first.artifacts[0].digest, True, "deep")
    assert checks.find_idle("gpu") is None
    store.trace_requests.add(found)
    assert checks.find_idle("cpu") is None


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("linear", {}),  # which ended by itself
        ("linear", {"budget": "deep"}),
        ("branches_on_data", NO_TIME),  # which is rejected
    ],
)
def test_an_idle_worker_finds_nothing_that_more_time_does_not_help(
    work: Work, checks: FurtherChecks, name: str, check: dict[str, Any]
) -> None:
    work(spec(name, example_inputs=[X], check=check))

    assert checks.find_idle("cpu") is None


def test_an_idle_worker_leaves_a_deleted_model_alone(work: Work, store: Store, checks: FurtherChecks) -> None:
    work(spec("linear", example_inputs=[X], check=NO_TIME))

    store.models.delete(TENANT, "net")

    assert checks.find_idle("cpu") is None


def test_an_idle_worker_leaves_out_what_cannot_go_on(work: Work, store: Store, checks: FurtherChecks) -> None:
    file = {"file": "inputs.npz", "key": "x"}
    gone = work(spec("linear", example_inputs=[file], check=NO_TIME), {"inputs.npz": npz(x=np.ones((1, 4), "f4"))})
    path(store, gone.files["inputs.npz"].digest).unlink()
    second = work(spec("linear", example_inputs=[X], check=NO_TIME))

    found = checks.find_idle("cpu")

    assert found is not None
    assert found.continues == second.artifacts[0].digest


def test_what_a_further_check_stores_counts_what_it_adds(work: Work, go_on: GoOn, store: Store) -> None:
    """The archive of both artifacts is one file."""
    first = work(spec("linear", example_inputs=[X], check=NO_TIME))
    later = artifact_of(store, go_on(first))

    added = [later.golden, *([later.sources] if later.sources else [])]
    assert later.stored_bytes == len(later.manifest()) + sum(blob.byte_size for blob in added)
