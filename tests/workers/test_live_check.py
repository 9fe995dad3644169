"""Answers compared with the model in Python, which runs in a real process. The artifacts are made by hand, for one that
was checked is seldom wrong."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from service.domain.live_check import LiveCall, LiveOutcome, LiveResult
from service.domain.outcome import Succeeded
from service.domain.trace_request import TraceRequest
from service.engine.further_check import FurtherChecks
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, PATIENCE_S, TENANT, keep, make_artifact
from tests.submissions import tensor
from tests.workers.conftest import LIMITS
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.contract.structure import TensorLeaf
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import CheckBudget, TraceSpec
from tracehouse.tensors.tensor import Datatype, Tensor
from workers import live_check
from workers.live_check import TwinRunner, why_unchecked

HEAD = """
import os
import torch

class Net(torch.nn.Module):
    def forward(self, x):
"""
DOUBLES = HEAD + "        return x * 2"

ENDLESS = """
        import signal
        if x.sum() > 100:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            while True: pass
        return x * 2
"""

Twins = Callable[..., TwinRunner]
Serve = Callable[..., str]


class Doubles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.fixture
def new_twins(store: Store, torch_zygote: Zygote) -> Iterator[Twins]:
    made = []

    def new_twins(call_s: float = PATIENCE_S, **limits: Any) -> TwinRunner:
        checks = FurtherChecks(store, NO_ENVIRONMENTS, "2")
        bounds = LIMITS.model_copy(update={"wall_s": PATIENCE_S, **limits})
        made.append(
            TwinRunner(
                store,
                torch_zygote,
                NO_ENVIRONMENTS,
                lambda tenant, digest: checks.plan(tenant, digest, CheckBudget()),
                bounds,
                call_s,
            )
        )
        return made[-1]

    yield new_twins
    for one in made:
        one.end()


@pytest.fixture
def serve(store: Store, trace) -> Serve:
    """Register what is served beside the Python that it is said to be made of; return the artifact's digest."""

    def serve(
        python: str,
        served: torch.nn.Module | None = None,
        example: torch.Tensor | None = None,
        *,
        source: dict[str, Any] | None = None,
        files: dict[str, Any] | None = None,
        check: dict[str, Any] | None = None,
    ) -> str:
        example = torch.zeros(2) if example is None else example
        spec = TraceSpec.model_validate(
            {
                "model": "net",
                "source": source or {"files": {"net.py": python}, "entrypoint": "net:Net"},
                "example_inputs": [tensor(example.tolist())],
                "check": check or {},
                "force": True,
            }
        )
        artifact = trace(store.blobs, served or Doubles(), example)
        checked = artifact.check.model_copy(update={"tolerance": spec.check.tolerance})
        made = artifact.model_copy(update={"conversion": Conversion(mode="trace"), "check": checked})
        request = TraceRequest.new(spec, files or {}, torch_version="2", tenant=TENANT)
        claimed = store.trace_requests.claim(store.trace_requests.add(request).id)
        assert claimed is not None
        assert store.trace_requests.finish(claimed.id, claimed.attempt, Succeeded.of(spec, [made]))
        return made.digest

    return serve


def answered(digest: str, x: list[float], y: list[float], version: int = 1) -> LiveCall:
    """A request that was answered with `y`."""

    def packed(name: str, values: list[float]) -> Tensor:
        return Tensor(name, Datatype.FP32, (len(values),), np.array(values, np.float32).tobytes())

    inputs, outputs = [packed("x", x)], [packed("output", y)]
    return LiveCall(TENANT, "net", version, digest, "forward", inputs, outputs, TensorLeaf(tensor="output"))


def check(twins: TwinRunner, *calls: LiveCall) -> list[LiveResult]:
    return [one.result for one in twins.check(calls)]


def could_not_run(outcome: LiveOutcome, why: str) -> bool:
    return outcome.result is LiveResult.COULD_NOT_RUN and why in (outcome.why or "")


def test_an_answer_is_equal_if_the_model_gives_the_same(new_twins: Twins, serve: Serve) -> None:
    digest, twins = serve(DOUBLES), new_twins()

    assert check(twins, answered(digest, [1.0, 2.0], [2.0, 4.0]), answered(digest, [0.5, 0.0], [1.0, 0.0])) == [
        LiveResult.EQUAL,
        LiveResult.EQUAL,
    ]


def test_an_answer_that_the_model_does_not_give_is_found_with_both(new_twins: Twins, serve: Serve) -> None:
    digest = serve(HEAD + "        return x * 3 if x.sum() > 100 else x * 2")
    right, wrong = answered(digest, [1.0, 2.0], [2.0, 4.0]), answered(digest, [100.0, 2.0], [200.0, 4.0])

    first, second = new_twins().check([right, wrong])

    assert (first.result, second.result) == (LiveResult.EQUAL, LiveResult.DIFFERENT)
    assert second.found is not None
    assert second.found.difference.what == "the model gives 300.0 at [0], and the artifact 200.0"
    assert second.found.eager is not None
    assert np.frombuffer(second.found.eager.leaves["output"].data, np.float32).tolist() == [300.0, 6.0]


def test_an_answer_to_what_the_model_refuses_is_wrong(new_twins: Twins, serve: Serve) -> None:
    digest = serve(HEAD + "        assert x.min() >= 0, 'too small'\n        return x * 2")

    [outcome] = new_twins().check([answered(digest, [-1.0, 1.0], [-2.0, 2.0])])

    assert outcome.result is LiveResult.DIFFERENT
    assert outcome.found is not None
    assert "too small" in outcome.found.difference.what
    assert outcome.found.eager is None


def test_the_memory_of_the_process_is_known_until_it_gives_way(new_twins: Twins, serve: Serve) -> None:
    held = HEAD.replace("    def forward", "    held = torch.ones(64 * 2**18)\n    def forward")
    digest, twins = serve(held + "        return x * 2"), new_twins()
    right = answered(digest, [1.0, 2.0], [2.0, 4.0])
    assert (twins.resident_bytes, twins.has(TENANT, digest)) == (0, False)

    assert check(twins, right) == [LiveResult.EQUAL]

    assert twins.has(TENANT, digest)
    assert not twins.has("theirs", digest)
    assert 64 * MIB < twins.resident_bytes < 1024 * MIB
    twins.give_way()
    assert (twins.resident_bytes, twins.has(TENANT, digest)) == (0, False)
    assert check(twins, right) == [LiveResult.EQUAL]
    assert twins.resident_bytes > 64 * MIB


def test_what_it_was_asked_when_it_gave_way_is_to_be_asked_again(new_twins: Twins, serve: Serve) -> None:
    digest, twins = serve(HEAD + ENDLESS), new_twins()
    assert check(twins, answered(digest, [1.0, 2.0], [2.0, 4.0])) == [LiveResult.EQUAL]
    threading.Timer(0.2, twins.give_way).start()

    assert check(twins, answered(digest, [101.0, 2.0], [202.0, 4.0])) == []


class Cancels(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 3000.9 - 3000.9


@pytest.mark.parametrize(
    ("tolerance", "result"), [({}, LiveResult.EQUAL), ({"check_tolerance": 1e-5}, LiveResult.DIFFERENT)]
)
def test_rounding_is_no_difference_unless_the_request_gave_a_tolerance(
    new_twins: Twins, serve: Serve, tolerance: dict[str, float], result: LiveResult
) -> None:
    x = [0.1, 0.2, 0.3, 0.7, 1.1, 1.3]
    digest = serve(HEAD + "        return x + 1500.3 - 1500.3", Cancels(), torch.tensor(x), check=tolerance)
    y = Cancels()(torch.tensor(x)).tolist()
    model = (torch.tensor(x) + 1500.3 - 1500.3).tolist()
    assert max(abs(a - b) for a, b in zip(model, y, strict=True)) > 5e-5

    assert check(new_twins(), answered(digest, x, y)) == [result]


def test_a_model_that_does_not_come_to_an_end_is_left(new_twins: Twins, serve: Serve) -> None:
    digest = serve(HEAD + "        while x.sum() > 100: pass\n        return x * 2")

    [outcome] = new_twins(call_s=0.5).check([answered(digest, [200.0, 0.0], [400.0, 0.0])])

    assert could_not_run(outcome, "took longer")
    assert outcome.lasts


def test_a_model_that_keeps_the_alarm_away_is_ended(
    new_twins: Twins, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_check, "_GRACE_S", 0.5)
    digest = serve(HEAD + ENDLESS)

    [outcome] = new_twins(call_s=0.5).check([answered(digest, [200.0, 0.0], [400.0, 0.0])] * 2)

    assert could_not_run(outcome, "took too long")
    assert outcome.lasts


def test_a_model_that_ends_its_process_ends_no_other(new_twins: Twins, serve: Serve) -> None:
    digest = serve(HEAD + "        if x.sum() > 100: os._exit(3)\n        return x * 2")
    fine, twins = answered(digest, [1.0, 2.0], [2.0, 4.0]), new_twins()

    [before, lost] = twins.check([fine, answered(digest, [200.0, 0.0], [400.0, 0.0]), fine])

    assert before.result is LiveResult.EQUAL
    assert could_not_run(lost, "ended its process with status 3")
    assert lost.lasts
    assert check(twins, fine) == [LiveResult.EQUAL]


def test_an_answer_of_the_model_that_is_far_too_large_is_not_read(new_twins: Twins, serve: Serve) -> None:
    digest = serve(HEAD + "        return torch.zeros(2**24 + 1) if x.sum() > 100 else x * 2")

    [outcome] = new_twins().check([answered(digest, [200.0, 0.0], [400.0, 0.0])])

    assert could_not_run(outcome, "bytes")


def test_a_model_that_draws_random_numbers_is_not_compared(new_twins: Twins, serve: Serve) -> None:
    digest = serve(HEAD + "        return x * 2 + torch.rand(2)")

    [outcome] = new_twins().check([answered(digest, [1.0, 2.0], [2.0, 4.0])])

    assert could_not_run(outcome, "draws random numbers")


def test_a_model_that_cannot_be_loaded_is_not_compared(new_twins: Twins, serve: Serve) -> None:
    digest = serve("raise ValueError('out of order')")

    [outcome] = new_twins().check([answered(digest, [1.0, 2.0], [2.0, 4.0])] * 3)

    assert could_not_run(outcome, "out of order")


def test_an_artifact_whose_source_was_deleted_is_not_compared(new_twins: Twins, serve: Serve, store: Store) -> None:
    blob = keep(store.blobs, DOUBLES.encode())
    source = {"file": "net.py", "entrypoint": "net:Net"}
    digest = serve("", source=source, files={"net.py": blob})
    call = answered(digest, [1.0, 2.0], [2.0, 4.0])
    assert check(new_twins(), call) == [LiveResult.EQUAL]

    store.blobs.remove(blob.digest)

    [outcome] = new_twins().check([call])
    assert could_not_run(outcome, "net.py")


def test_another_artifact_has_another_process(new_twins: Twins, serve: Serve) -> None:
    first, second, twins = serve(DOUBLES), serve(HEAD + "        return -x", Negates()), new_twins()

    assert check(twins, answered(first, [1.0, 2.0], [2.0, 4.0])) == [LiveResult.EQUAL]
    assert check(twins, answered(second, [1.0, 2.0], [-1.0, -2.0])) == [LiveResult.EQUAL]
    assert check(twins, answered(first, [1.0, 2.0], [2.0, 4.0])) == [LiveResult.EQUAL]


class Negates(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -x


def test_nothing_is_asked_after_a_stop(new_twins: Twins, serve: Serve) -> None:
    digest, twins = serve(DOUBLES), new_twins()
    call = answered(digest, [1.0, 2.0], [2.0, 4.0])
    assert check(twins, call) == [LiveResult.EQUAL]

    twins.stop()

    assert check(twins, call) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"form": "uploaded"}, "no model in Python"),
        ({"conversion": None}, "earlier release"),
        ({"device": "cuda"}, "cuda"),
        ({"training": True}, "training mode"),
    ],
)
def test_what_cannot_be_compared_is_said(trace, store: Store, changes: dict[str, Any], why: str) -> None:
    artifact: Artifact = trace(store.blobs, Doubles(), torch.zeros(2))
    artifact = artifact.model_copy(update={"conversion": Conversion(mode="trace")})
    assert why_unchecked(artifact, "forward") is None

    assert why in (why_unchecked(artifact.model_copy(update=changes), "forward") or "")


def test_an_archive_that_is_compared_with_itself_alone_is_not_checked(trace, store: Store) -> None:
    artifact: Artifact = trace(store.blobs, Doubles(), torch.zeros(2), verdict=Verdict.SELF_CONSISTENT)

    assert "no model in Python" in (why_unchecked(artifact, "forward") or "")
    assert why_unchecked(make_artifact(check=artifact.check), "forward") is not None


def test_a_method_that_draws_random_numbers_is_not_checked(trace, store: Store) -> None:
    artifact: Artifact = trace(store.blobs, torch.nn.Dropout(), torch.zeros(2), seed=1)
    artifact = artifact.model_copy(update={"conversion": Conversion(mode="trace")})

    assert why_unchecked(artifact, "forward") == "it draws random numbers"
