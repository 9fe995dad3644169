"""Memory: a check whose whole does not fit into its process is made with less, and says so."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from service.domain.trace_request import TraceRequest
from service.storage.database import Store
from tests.conftest import TENANT
from tests.submissions import spec, tensor
from tests.workers.conftest import LIMITS, MIB, Told
from tracehouse.artifact.manifest import Artifact
from tracehouse.findings.check_memory import CheckMemory
from tracehouse.findings.verdict import Verdict

Work = Callable[..., TraceRequest]
ROW = {"datatype": "FP32", "shape": [1, 2048], "random": {"seed": 0}}
# What is free in the tight child: enough for torch to save the archive, and too little for eight rows or float64.
TIGHT_MIB = 112


def trace(work: Work, memory_mib: int, seed: int) -> TraceRequest:
    submitted = spec(
        "fills_memory_on_the_way",
        example_inputs=[ROW],
        dynamic={"x": {"0": "batch"}},
        sizes={"batch": {"low": 1, "high": 4}},
        options={"seed": seed},
    )
    return work(submitted, memory_mib=memory_mib)


def made(store: Store, request: TraceRequest) -> Artifact:
    assert request.failure is None, request.failure
    return store.artifacts.get(TENANT, request.artifacts[0].digest)


def tight(work: Work, store: Store, memory_mib: int) -> Artifact:
    """Trace in a child with less than float64 takes: what is free differs by 64 MiB, with the heaps of its threads."""
    for seed in range(2, 12):
        request = trace(work, memory_mib, seed)
        if request.failure is not None:  # there was no room to save the archive
            memory_mib += TIGHT_MIB // 2
            continue
        held = memory_of(less := made(store, request))
        assert held.free_bytes is not None
        if held.free_bytes < 2 * (held.model_bytes + held.call_bytes):
            return less
        memory_mib -= held.free_bytes // MIB - TIGHT_MIB
    raise AssertionError("no child was tight")


def memory_of(artifact: Artifact) -> CheckMemory:
    assert artifact.check.memory is not None
    return artifact.check.memory


def left_out_of(artifact: Artifact) -> list[str]:
    return [what for layer in artifact.check.layers for what in layer.left_out]


def test_a_check_that_does_not_fit_is_made_with_less_and_says_so(work: Work, store: Store) -> None:
    whole = made(store, trace(work, LIMITS.memory_mib, seed=1))
    held = memory_of(whole)
    assert held.free_bytes is not None
    assert held.needed_bytes - held.model_bytes < held.free_bytes
    assert (whole.check.verdict, held.left_out, left_out_of(whole)) == (Verdict.VERIFIED, [], [])
    assert whole.contract.methods["forward"].batch is not None

    less = tight(work, store, LIMITS.memory_mib - held.free_bytes // MIB + TIGHT_MIB)
    assert (memory_of(less).needed_bytes, memory_of(less).model_bytes) == (held.needed_bytes, held.model_bytes)
    assert less.check.verdict is not Verdict.REJECTED
    assert {case.agrees for case in less.check.comparisons} == {True}
    assert [one.split(",")[0] for one in memory_of(less).left_out] == [
        "answers in float64",
        "calls of larger sizes",
    ]
    assert less.check.layers[0].left_out == memory_of(less).left_out
    assert any("may be answered together" in one for one in left_out_of(less))
    assert less.contract.methods["forward"].batch is None
    assert next(layer for layer in less.check.layers if layer.name == "batch").is_cut


def test_a_layer_that_runs_out_of_memory_is_left_out_and_the_others_run(run: Callable[..., Told]) -> None:
    told = run(spec("fills_memory_for_negatives", example_inputs=[tensor([[1.0, 2.0], [3.0, 4.0]])]))

    out = {layer.name: layer.left_out for layer in told.traced.check.layers}
    assert "the rest of the layer, because this process has no more memory" in out["probe"]
    assert [*out][-1] == "batch"


# The highest resident memory of a process that only checks: the archive is sent away, as the tracer does.
PEAK = """
import json, sys
import torch
from benchmarks.check_memory import CLEAR, check, load, resident
from tracehouse.spec.trace_spec import TraceSpec

torch.set_num_threads(1)
warm, submission = map(TraceSpec.model_validate, json.loads(sys.argv[1]))
check(load(warm), warm, lambda _: None, lambda _: None)
before = resident("VmRSS")
loaded = load(submission)

def ended(step):
    if step == "trace":
        CLEAR.write_text("5")

memory = check(loaded, submission, lambda _: None, ended).check.memory
print(json.dumps([resident("VmHWM") - before, memory.needed_bytes, memory.model_bytes]))
"""


def test_a_check_with_answers_in_float64_takes_no_more_than_it_says() -> None:
    """The trace rounds otherwise than the model, so that answers in float64 decide."""
    peak, needed, model = peak_of("rounds_otherwise_while_traced")

    assert model >= 192 * MIB
    assert 2 * model < peak <= needed < 4.5 * model


def peak_of(name: str) -> tuple[int, int, int]:
    """Return in bytes the check's highest memory, what it said beforehand, and what the model has."""
    row: dict[str, Any] = {"datatype": "FP32", "shape": [1, 8192], "random": {"seed": 0}}
    submissions = [spec("linear", example_inputs=[tensor([[1.0] * 4])]), spec(name, example_inputs=[row])]
    for one in submissions:
        one["check"] = {"budget_s": 5, "check_trace": False}
    done = subprocess.run(
        [sys.executable, "-c", PEAK, json.dumps(submissions)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    peak, needed, model = json.loads(done.stdout.splitlines()[-1])
    return peak, needed, model
