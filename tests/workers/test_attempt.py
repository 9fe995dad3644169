"""Attempts and the worker: real children from a real zygote, a real store; what a request's watcher sees."""

import io
import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from service.domain.quotas import Quotas
from service.domain.trace_request import State, TraceRequest
from service.protocol.bounds import LAYERS_MAX
from service.sandbox.cancellation import Cancellation
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, PATIENCE_S, TENANT, damage, stored_bytes, wait_until
from tests.submissions import spec, tensor, text
from tests.workers.conftest import LIMITS, Work
from tracehouse.errors import Failure
from tracehouse.findings.verdict import Verdict
from workers.worker import Worker

X = tensor([[1.0, 2.0, 3.0, 4.0]])


def failure(request: TraceRequest) -> Failure:
    assert request.state is State.FAILED
    assert request.failure is not None
    return request.failure


def test_a_request_becomes_an_artifact_and_a_version(work: Work, store: Store) -> None:
    request = work(spec("linear", example_inputs=[X]))

    assert (request.state, request.verdict) == (State.SUCCEEDED, Verdict.VERIFIED)
    assert request.model is not None
    artifact = store.artifacts.get(TENANT, request.artifacts[0].digest)
    with store.blobs.open(artifact.archive.digest) as archive:
        assert torch.jit.load(io.BytesIO(archive.read()))(torch.zeros(1, 4)).shape == (1, 3)
    assert (artifact.entrypoint, artifact.device) == ("linear:Net", "cpu")


def test_a_damaged_upload_is_never_traced_until_it_is_sent_again(
    work: Work, add: Callable[..., str], store: Store, torch_zygote: Zygote
) -> None:
    submitted = spec("linear", example_inputs=[{"file": "inputs.npz", "key": "x"}], force=True)
    data = io.BytesIO()
    np.savez(data, x=np.ones((1, 4), "f4"))
    request_id = add(submitted, {"inputs.npz": data.getvalue()})
    [sent] = store.trace_requests.get(TENANT, request_id).files.values()
    damage(store.blobs, sent.digest)

    Worker(store, torch_zygote, NO_ENVIRONMENTS, LIMITS, attempts=1).run(request_id, Cancellation())
    again = work(submitted, {"inputs.npz": data.getvalue()})

    damaged = failure(store.trace_requests.get(TENANT, request_id))
    assert (damaged.slug, damaged.facts["digest"]) == ("content-damaged", sent.digest)
    assert again.verdict is Verdict.VERIFIED


def test_a_log_for_which_its_tenant_has_no_room_is_cut_and_the_model_is_traced(work: Work, store: Store) -> None:
    quotas = Quotas(stored_max_bytes=5_000_000)
    with store.allowances.open(TENANT, quotas) as others:
        others.take(5_000_000 - 20_000)
        request = work(spec("prints_without_end", example_inputs=[X]), quotas=quotas)

    log = "".join(store.events.log(TENANT, request.id))
    assert log.endswith("[the log is cut: the storage quota has no room for more]\n")
    assert 10_000 < len(log) < 20_000  # the first event has room


def test_a_trace_for_whose_files_its_tenant_has_no_room_ends_and_leaves_none(
    work: Work, store: Store, tmp_path: Path
) -> None:
    request = work(spec("linear", example_inputs=[X]), quotas=Quotas(stored_max_bytes=8_000))

    refused = failure(request)
    assert (refused.slug, refused.facts["limit"]) == ("storage-quota-exceeded", 8_000)
    assert request.attempt == 1
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []
    assert stored_bytes(store) < 8_000


def test_outputs_for_which_the_tenant_has_no_room_are_not_stored(work: Work, store: Store) -> None:
    request = work(spec("linear", example_inputs=[X], mode="eager"), quotas=Quotas(stored_max_bytes=2_000))

    assert failure(request).slug == "storage-quota-exceeded"


def test_files_of_an_attempt_whose_result_is_not_stored_count(
    add: Callable[..., str], store: Store, torch_zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_id = add(spec("linear", example_inputs=[X], check={"probes": "off"}))
    finish = store.trace_requests.finish

    def cancel_first(*end: Any) -> bool:
        store.trace_requests.cancel(TENANT, request_id)
        return finish(*end)

    monkeypatch.setattr(store.trace_requests, "finish", cancel_first)
    before = stored_bytes(store)

    Worker(store, torch_zygote, NO_ENVIRONMENTS, LIMITS, attempts=1).run(request_id, Cancellation())

    assert store.trace_requests.get(TENANT, request_id).state is State.CANCELLED
    assert stored_bytes(store) - before > 5_000, "the archive alone has more"


def test_the_log_says_where_the_time_of_a_request_went(work: Work, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "workers.worker"):
        work(spec("linear", example_inputs=[X]))

    [ended] = [one.__dict__ for one in caplog.records if one.message == "trace ended"]
    assert {"load", "first calls", "trace and torch's check", "save", "layers", "printouts"} <= {*ended["tracer_steps"]}
    assert {"tracer", "verify: sizes", "verify: fresh inputs", "pack", "replay", "store"} <= {*ended["steps"]}
    assert {*ended["processes_cpu_s"]} == {"tracer", "reference", "runner", "packer"}


def test_wanted_sizes_that_the_contract_does_not_accept_restrict_the_version(work: Work, store: Store) -> None:
    wanted = {"dynamic": {"x": {"0": "rows"}}, "sizes": {"rows": {"low": 1, "high": 8}}, "check": {"probes": "off"}}
    request = work(spec("linear", example_inputs=[X], **wanted))
    artifact = store.artifacts.get(TENANT, request.artifacts[0].digest)

    [covered] = artifact.check.coverage
    assert (request.verdict, artifact.check.verdict) == (Verdict.RESTRICTED, Verdict.RESTRICTED)
    assert (covered.requested, covered.covered, covered.missing) == (8, 1, {"rows": 2})
    assert [finding.kind for finding in request.findings].count("sizes-not-covered") == 1


def test_the_same_request_gives_the_same_artifact_byte_by_byte(work: Work) -> None:
    submitted = spec("linear", example_inputs=[{"datatype": "FP32", "shape": [2, 4], "random": {"seed": 1}}])

    assert work(submitted).artifacts == work(submitted).artifacts


def test_watchers_see_the_stages_in_order_and_the_end(work: Work, store: Store) -> None:
    request = work(spec("prints", example_inputs=[X]))
    events = store.events.after(TENANT, request.id, 0, 100)

    stages = [event.data["stage"] for event in events if event.kind == "stage"]
    assert list(dict.fromkeys(stages)) == [
        "queued",
        "loading",
        "tracing",
        "checking",
        "printing",
        "verifying",
        "storing",
    ]
    assert events[-1].data == {"state": "succeeded", "verdict": "verified"}


def test_what_the_source_prints_is_its_log(work: Work, store: Store) -> None:
    request = work(spec("prints", example_inputs=[X]))
    log = "".join(store.events.log(TENANT, request.id))

    assert log.startswith("imported\ncalled \\x1b[2J\n")


def test_the_log_of_a_model_that_prints_nothing_is_empty(work: Work, store: Store) -> None:
    """From torch 2.14 on, Python prints what torch.jit says of its own deprecation, unless it is told not to."""
    request = work(spec("linear", example_inputs=[X], options={"freeze": True}))

    assert "".join(store.events.log(TENANT, request.id)) == ""


@pytest.mark.slow
def test_a_log_without_end_is_cut(work: Work, store: Store) -> None:
    request = work(spec("prints_without_end", example_inputs=[X]), log_max_bytes=100_000)
    log = "".join(store.events.log(TENANT, request.id))

    assert request.verdict is Verdict.VERIFIED
    assert len(log) < 101_000
    assert log.endswith("[the log is cut after 100000 bytes]\n")


def test_uploaded_files_reach_the_child(work: Work) -> None:
    weights, inputs = io.BytesIO(), io.BytesIO()
    torch.save({"layer.weight": torch.ones(3, 4), "layer.bias": torch.zeros(3)}, weights)
    torch.save({"x": torch.ones(2, 4), "y": torch.ones(5, 4)}, inputs)
    request = work(
        {
            "model": "net",
            "source": {"file": "net.py", "entrypoint": "net:Net"},
            "weights": {"file": "w.pt"},
            "example_inputs": [{"file": "x.pt", "key": "x"}],
            "check": {"check_inputs": [[{"file": "x.pt", "key": "y"}]]},
        },
        {"net.py": text("linear").encode(), "w.pt": weights.getvalue(), "x.pt": inputs.getvalue()},
    )

    assert (request.state, request.verdict) == (State.SUCCEEDED, Verdict.VERIFIED)


def test_a_rejected_trace_succeeds_and_is_registered_only_where_asked(work: Work) -> None:
    submitted = spec("branches_on_data", example_inputs=[X])
    refused, accepted = work(submitted), work({**submitted, "accept_unsound": True})

    assert (refused.state, refused.verdict, refused.model) == (State.SUCCEEDED, Verdict.REJECTED, None)
    assert accepted.model is not None
    assert [finding.kind for finding in refused.findings] == ["tracer-warning", "baked-value", "output-differs"]


@pytest.mark.parametrize(
    ("name", "slug", "facts"),
    [
        ("exits", "model-exited", {"line": 8}),
        ("exits_hard", "model-exited", {"exit_status": 3}),
        ("segfaults", "model-crashed", {"signal": "SIGSEGV"}),
        ("eats_memory", "limit-exceeded", {"limit": "memory"}),
        ("starts_threads_without_end", "limit-exceeded", {"limit": "threads"}),
        ("raises_in_forward", "model-raised", {"line": 9}),
        ("forges_its_result", "model-crashed", {}),
        ("closes_its_channel", "model-exited", {"exit_status": 0}),
    ],
)
def test_however_model_code_ends_the_request_says_it(work: Work, name: str, slug: str, facts: dict[str, Any]) -> None:
    ended = failure(work(spec(name, example_inputs=[X])))

    assert ended.slug == slug
    assert ended.facts.items() >= facts.items()


def traced(**members: Any) -> dict[str, Any]:
    """What an honest child says of a model like `linear`, but for these members."""
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    method = {
        "arguments": [{"name": "x", "structure": {"tensor": "x"}}],
        "inputs": [x],
        "outputs": [{**x, "name": "output"}],
        "returns": {"tensor": "output"},
    }
    check = {"verdict": "verified", "comparisons": [], "findings": [], "torch": {"ran": True}}
    empty = ("submodules", "parameters", "buffers", "missing_weights", "unexpected_weights")
    return {
        "kind": "traced",
        "entrypoint": "net:Net",
        "contract": {"methods": {"forward": {**method, **members.pop("method", {})}}},
        "check": {**check, **members.pop("check", {})},
        **{name: [] for name in empty},
        "versions": {"torch": "2", "python": "3", "tracehouse": "0"},
        **members,
    }


def failed(slug: str, **facts: Any) -> dict[str, Any]:
    return {"kind": "failed", "failure": {"slug": slug, "detail": "it says", "facts": facts}}


def forging(*said: Any) -> dict[str, Any]:
    """A model whose code says this in the tracer's place, files that it needs included."""
    source = f"""
import gc, json, os
from service.sandbox.channel import Channel
(channel,) = [it for it in gc.get_objects() if isinstance(it, Channel)]
for name in ("archive", "printouts"):
    channel.send({{"kind": "file", "name": name}}, b"junk")
for said in json.loads({json.dumps(json.dumps(said))}):
    channel.send(said)
os._exit(0)
"""
    inline = {"files": {"net.py": source}, "entrypoint": "net:Net"}
    return {"model": "net", "source": inline, "example_inputs": [X]}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


FINDING = {"kind": "k", "detail": "d"}
TENSOR = {"name": "x", "datatype": "FP32", "shape": [1, 4]}

FORGED: dict[str, dict[str, Any]] = {
    "deep evidence": traced(check={"findings": [{**FINDING, "evidence": {"a": nested(200)}}]}),
    "deep contract": traced(method={"returns": {"baked": nested(200)}}),
    "many findings": traced(check={"findings": [FINDING] * 20_000}),
    "a long finding": traced(check={"findings": [{**FINDING, "detail": "d" * 1_000_000}]}),
    "a line that no file has": traced(check={"findings": [{**FINDING, "line": "9" * 40}]}),
    "a tolerance of its own": traced(check={"tolerance": 1.0}),
    "no tolerance": traced(check={"tolerance": "NaN"}),
    "a method that nobody asked for": traced(contract={"methods": {}}),
    "another entrypoint": traced(entrypoint="other:Net"),
    "a leaf that is no input": traced(method={"arguments": [{"name": "x", "structure": {"tensor": "y"}}]}),
    "two inputs of one name": traced(method={"inputs": [TENSOR, TENSOR]}),
    "a deep fact": failed("model-raised", a=nested(200)),
    "a long fact": failed("model-raised", a="y" * 1_000_000),
    "a failure of the disk": failed("disk-full"),
    "facts that look like arguments": failed("tracer-lost", detail="y", self=1),
    "progress that goes back": {"kind": "progress", "stage": "queued", "progress": 0.5},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_answer_is_the_models_crash_and_can_be_read_by_everybody(
    work: Work, store: Store, forged: dict[str, Any]
) -> None:
    request = work(forging(forged))

    assert failure(request).slug == "model-crashed"
    assert [listed.failure for listed in store.trace_requests.list(TENANT, 10).items] == [request.failure]


def test_a_tracer_that_fails_is_not_tried_again_and_is_logged_with_what_it_printed(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    tampering = {
        "files": {
            "net.py": "import tracehouse.torchscript.candidate as candidate\ncandidate.trace = None\n" + text("linear")
        }
    }
    request = work({**spec("linear", example_inputs=[X]), "source": {**tampering, "entrypoint": "net:Net"}})

    assert (failure(request).slug, failure(request).facts["exception"]) == ("model-crashed", "TypeError")
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "'NoneType' object is not callable" in record.__dict__["log"]


def test_a_child_that_never_stops_talking_is_timed_out(work: Work, store: Store) -> None:
    request = work(spec("talks_without_end", example_inputs=[X]), wall_s=5)

    assert (failure(request).slug, failure(request).facts["limit"]) == ("limit-exceeded", "wall")
    assert "printed meanwhile" in "".join(store.events.log(TENANT, request.id))


def test_a_child_that_tells_of_its_progress_again_and_again_is_stopped(work: Work, store: Store) -> None:
    stage = {"kind": "progress", "stage": "tracing", "progress": 0.5}
    request = work(forging(*[stage] * 1000))

    assert failure(request).slug == "model-crashed"
    assert len(store.events.after(TENANT, request.id, 0, 100)) < 10


LAYER = {
    "name": "probe",
    "method": "forward",
    "seconds": 0.5,
    "summary": "tried 9 inputs",
    "left_out": ["sizes above 64"],
    "is_cut": True,
    "budget_s": 0.25,
    "budget_left_s": 2.5,
}


def test_watchers_see_each_layer_of_the_check(work: Work, store: Store) -> None:
    request = work(forging({"kind": "layer-done", "layer": LAYER}))

    [told] = [event.data for event in store.events.after(TENANT, request.id, 0, 100) if event.kind == "layer"][:1]
    assert told == {**LAYER, "left_out": 1, "device": "cpu", "progress": pytest.approx(0.5 + 0.3 / 8)}


@pytest.mark.parametrize(
    ("layer", "times"), [(LAYER, 1000), ({**LAYER, "method": "other"}, 1), ({**LAYER, "summary": "x" * 100_000}, 1)]
)
def test_a_child_that_tells_of_more_layers_than_it_may_is_stopped(
    work: Work, store: Store, layer: dict[str, Any], times: int
) -> None:
    request = work(forging(*[{"kind": "layer-done", "layer": layer}] * times))

    assert failure(request).slug == "model-crashed"
    told = [event for event in store.events.after(TENANT, request.id, 0, 1000) if event.kind == "layer"]
    assert len(told) == (LAYERS_MAX if times > 1 else 0)


@pytest.mark.slow
def test_a_header_that_stops_in_the_middle_is_timed_out(work: Work) -> None:
    """Also where something was printed, which goes on its way meanwhile."""
    request = work(spec("stops_within_a_header", example_inputs=[X]), wall_s=0.8)

    assert (failure(request).slug, failure(request).facts["limit"]) == ("limit-exceeded", "wall")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "limits", "limit"), [("hangs", {"wall_s": 0.3}, "wall"), ("burns_time", {"cpu_s": 1}, "cpu")]
)
def test_a_limit_ends_it(work: Work, name: str, limits: dict[str, Any], limit: str) -> None:
    ended = failure(work(spec(name, example_inputs=[X]), **limits))

    assert (ended.slug, ended.facts["limit"]) == ("limit-exceeded", limit)


@pytest.mark.parametrize(
    ("budget", "limit_s", "remedy"),
    [
        ("quick", 0.1, "send check.budget normal (0.2 s) or deep (0.3 s), smaller example inputs or a smaller model"),
        ("normal", 0.2, "send check.budget deep (0.3 s), smaller example inputs or a smaller model"),
        ("deep", 0.3, None),
    ],
)
def test_a_trace_has_the_time_of_its_budget(work: Work, budget: str, limit_s: float, remedy: str | None) -> None:
    submitted = {**spec("hangs", example_inputs=[X]), "check": {"budget": budget}}

    ended = failure(work(submitted, walls={"quick": 0.1, "normal": 0.2, "deep": 0.3}))

    assert (ended.slug, ended.facts["limit"]) == ("limit-exceeded", "wall")
    assert (ended.facts["budget"], ended.facts["limit_s"], ended.facts.get("remedy")) == (budget, limit_s, remedy)


@pytest.mark.slow
def test_a_result_over_its_limit_ends_it(work: Work) -> None:
    wide = {**spec("linear", example_inputs=[tensor([[1.0] * 40_000])])}
    wide["source"]["init"] = {"args": [40_000]}

    assert failure(work(wide, result_max_bytes=100_000)).slug == "limit-exceeded"


@pytest.mark.parametrize(
    ("reason", "state"), [("cancelled", State.RUNNING), ("stopping", State.QUEUED), ("giving way", State.QUEUED)]
)
def test_a_running_attempt_is_stopped(
    store: Store, torch_zygote: Zygote, add: Callable[..., str], reason: Any, state: State
) -> None:
    """An engine has marked a cancelled request already; one that is stopped is queued again."""
    request_id, cancellation = add(spec("hangs_aloud", example_inputs=[X])), Cancellation()
    worker = Worker(store, torch_zygote, NO_ENVIRONMENTS, LIMITS, attempts=2)
    working = threading.Thread(target=worker.run, args=(request_id, cancellation))
    working.start()
    wait_until(lambda: any(event.kind == "log" for event in store.events.after(TENANT, request_id, 0, 10)))
    cancellation.set(reason)
    working.join(PATIENCE_S)

    request = store.trace_requests.get(TENANT, request_id)
    assert (request.state, request.attempt) == (state, 1)


def test_a_stopped_attempt_may_have_been_told_before_it_began(work: Work) -> None:
    cancellation = Cancellation()
    cancellation.set("stopping")

    assert work(spec("linear", example_inputs=[X]), cancellation=cancellation).state is State.QUEUED


@pytest.mark.slow
def test_a_lost_zygote_is_a_fault_of_ours_and_tried_again(store: Store, add: Callable[..., str]) -> None:
    request_id = add(spec("kills_its_parent", example_inputs=[X]))
    with Zygote(
        ["workers.programs.tracer", "workers.programs.reference", "workers.programs.runner", "workers.programs.packer"],
        tier=Tier.NONE,
    ) as zygote:  # in a jail the model could not kill it
        Worker(store, zygote, NO_ENVIRONMENTS, LIMITS, attempts=2).run(request_id, Cancellation())

    request = store.trace_requests.get(TENANT, request_id)
    assert (request.state, request.attempt) == (State.QUEUED, 1)


def test_a_request_that_is_not_queued_is_left_alone(work: Work, store: Store, torch_zygote: Zygote) -> None:
    request = work(spec("linear", example_inputs=[X]))
    Worker(store, torch_zygote, NO_ENVIRONMENTS, LIMITS, attempts=2).run(request.id, Cancellation())

    assert store.trace_requests.get(TENANT, request.id) == request


def test_parents_never_load_torch() -> None:
    code = "import sys, workers.worker; sys.exit('torch' in sys.modules)"

    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0


def test_a_request_that_is_cancelled_and_deleted_while_it_prints_leaves_nothing_and_is_no_fault(
    store: Store,
    torch_zygote: Zygote,
    add: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    request_id = add(spec("prints", example_inputs=[X]))
    append = store.events.append

    def delete_first(*event: Any, **of: Any) -> bool:
        monkeypatch.setattr(store.events, "append", append)
        store.trace_requests.cancel(TENANT, request_id)
        store.trace_requests.delete(TENANT, request_id)
        return append(*event, **of)

    monkeypatch.setattr(store.events, "append", delete_first)

    Worker(store, torch_zygote, NO_ENVIRONMENTS, LIMITS, attempts=2).run(request_id, Cancellation())

    assert stored_bytes(store) == 0
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
