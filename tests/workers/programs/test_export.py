"""Exportability: what torch.export makes of a model, as the process that traced it says, at no cost to the trace."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from service.domain.trace_request import State, TraceRequest
from service.sandbox.cancellation import Cancellation
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, PATIENCE_S, TENANT, offered_tiers
from tests.submissions import spec, tensor
from tests.workers.conftest import LIMITS, Work
from tracehouse.artifact.exportability import ExportAttempt
from tracehouse.artifact.manifest import Artifact
from tracehouse.findings.verdict import Verdict
from workers.worker import Worker

X = tensor([[1.0, 2.0, 3.0, 4.0]])
WANTED = {"exportability": True}
# Without the layers of the check: what is shown is what is exported.
OFF = {"probes": "off"}
PROGRAMS = [
    "workers.programs.tracer_warmup",
    "workers.programs.tracer",
    "workers.programs.reference",
    "workers.programs.runner",
    "workers.programs.packer",
]

# As torch.export runs a model, and torch.jit.trace does not.
DOUBLES = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        if torch.compiler.is_compiling() and not torch.jit.is_tracing():
            %s
        return x * 2
"""
# What submitted code can do where it is traced: have it say what it likes.
SAYS = """
import torch
from tracehouse.artifact.exportability import ExportAttempt
from tracehouse.exported import export
def said(method, program):
    return export.ExportResult(ExportAttempt(%s), b"x" * %d)
export._save = said
class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2
"""

ArtifactOf = Callable[..., Artifact]


def submitted(source: str, **members: Any) -> dict[str, Any]:
    inline = {"files": {"net.py": source}, "entrypoint": "net:Net"}
    return {"model": "net", "source": inline, "example_inputs": [X], "options": WANTED, "check": OFF, **members}


def attempts(artifact: Artifact) -> dict[tuple[str, str], ExportAttempt]:
    assert artifact.exportability is not None
    return {(one.method, one.way): one for one in artifact.exportability.attempts}


def ways(artifact: Artifact) -> dict[str, str]:
    """What came of those of forward."""
    return {way: one.outcome for (method, way), one in attempts(artifact).items() if method == "forward"}


def of(store: Store, request: TraceRequest) -> Artifact:
    assert request.failure is None, request.failure
    return store.artifacts.get(TENANT, request.artifacts[0].digest)


@pytest.fixture
def artifact(work: Work, store: Store) -> ArtifactOf:
    """What is stored for a submission."""
    return lambda *args, **limits: of(store, work(*args, **limits))


@pytest.fixture
def loaded(store: Store) -> Callable[[Artifact], Any]:
    """The exported program as a client loads it."""

    def loaded(artifact: Artifact) -> Any:
        assert artifact.exported is not None, artifact.exportability
        with store.blobs.open(artifact.exported.digest) as file:
            return torch.export.load(file).module()

    return loaded


def test_a_model_that_exports_is_ready_and_its_program_gives_what_eager_does(
    artifact: ArtifactOf, loaded: Callable[[Artifact], Any], store: Store
) -> None:
    kept = artifact(spec("linear", example_inputs=[X], options=WANTED, check=OFF))

    assert ways(kept) == dict.fromkeys(["direct", "trace-then-export", "source-to-source"], "succeeded")
    assert kept.exportability is not None
    assert kept.exportability.readiness == "ready"
    x = torch.tensor([[4.0, -3.0, 2.0, 1.0]])
    with store.blobs.open(kept.archive.digest) as file:
        assert torch.allclose(loaded(kept)(x), torch.jit.load(file)(x))


def test_nothing_is_exported_where_it_is_not_asked_for(artifact: ArtifactOf) -> None:
    kept = artifact(spec("linear", example_inputs=[X]))

    assert (kept.exportability, kept.exported) == (None, None)


def test_the_exported_program_counts_as_stored_bytes(artifact: ArtifactOf) -> None:
    kept = artifact(spec("linear", example_inputs=[X], options=WANTED, check=OFF))

    assert kept.exported is not None
    without = kept.model_copy(update={"exported": None})
    assert kept.stored_bytes > without.stored_bytes + kept.exported.byte_size


def test_a_branch_on_data_is_an_obstacle_to_direct_export_and_kept_by_the_others(artifact: ArtifactOf) -> None:
    kept = artifact(spec("branches_on_data", example_inputs=[X], options=WANTED, check=OFF, accept_unsound=True))

    direct = attempts(kept)["forward", "direct"]
    assert (direct.outcome, direct.error) == ("failed", "GuardOnDataDependentSymNode")
    assert (direct.file, direct.line, direct.source) == ("branches_on_data.py", 6, "if x.sum() > 0:")
    traced = attempts(kept)["forward", "trace-then-export"]
    assert traced.outcome == "succeeded"
    assert "branches_on_data.py:6" in (traced.detail or "")
    assert kept.exportability is not None
    assert kept.exportability.readiness == "partly"
    assert "branches_on_data.py:6" in kept.exportability.note
    assert kept.exported is None


def test_a_model_that_no_way_exports_is_told_where(artifact: ArtifactOf) -> None:
    kept = artifact(spec("halves_while_large", example_inputs=[X], options=WANTED, check=OFF))

    assert kept.check.verdict is Verdict.VERIFIED
    assert ways(kept) == dict.fromkeys(["direct", "trace-then-export", "source-to-source"], "failed")
    # Of the source-to-source way, torch 2.7 names the line of the call, 13.
    assert {one.line for one in attempts(kept).values()} in ({6}, {6, 13})
    assert kept.exportability is not None
    assert kept.exportability.readiness == "not"


def test_every_method_is_tried_and_the_program_that_is_kept_is_forwards(
    artifact: ArtifactOf, loaded: Callable[[Artifact], Any]
) -> None:
    methods = {
        "encode": {"example_inputs": [X], "example_kwarg_inputs": {"scale": 3.0}},
        "forward": {"example_inputs": [X]},
    }
    kept = artifact(spec("two_methods", methods=methods, options=WANTED, check=OFF))

    tried = {place: one.outcome for place, one in attempts(kept).items()}
    assert tried["encode", "direct"] == tried["forward", "direct"] == "succeeded"
    assert tried["encode", "source-to-source"] == "not-tried"
    assert loaded(kept)(torch.ones(1, 4)).shape == (1, 4)


@pytest.mark.parametrize(
    ("entrypoint", "inputs"),
    [
        ("keywords", {"example_inputs": [X], "example_kwarg_inputs": {"extra": X, "bias": X}}),
        ("instance", {"example_inputs": [X]}),
    ],
)
def test_functions_are_exported_as_they_are_called(
    artifact: ArtifactOf, entrypoint: str, inputs: dict[str, Any]
) -> None:
    kept = artifact(spec("functions", entrypoint, options=WANTED, check=OFF, **inputs))

    assert ways(kept)["direct"] == "succeeded", attempts(kept)
    assert kept.exported is not None


def test_a_script_is_exported_from_its_eager_model_and_from_its_source(artifact: ArtifactOf) -> None:
    kept = artifact(spec("linear", example_inputs=[X], options=WANTED, check=OFF, mode="script"))

    assert ways(kept) == {"direct": "succeeded", "source-to-source": "succeeded"}


def test_an_uploaded_archive_is_exported_from_its_source(artifact: ArtifactOf) -> None:
    module = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()))
    uploaded = {"model": "net", "source": {"archive": "net.pt"}, "example_inputs": [X], "options": WANTED, "check": OFF}

    assert ways(artifact(uploaded, {"net.pt": module.save_to_buffer()})) == {"source-to-source": "succeeded"}


def test_a_program_that_answers_otherwise_differs(artifact: ArtifactOf) -> None:
    kept = artifact(submitted(DOUBLES % "return x * 3"))

    direct = attempts(kept)["forward", "direct"]
    assert (direct.outcome, kept.check.verdict, kept.exported) == ("differs", Verdict.VERIFIED, None)
    assert "output" in (direct.detail or "")
    assert ways(kept)["trace-then-export"] == "succeeded"


@pytest.mark.parametrize(
    ("does", "export_s", "told"),
    [
        ("import os; os._exit(3)", PATIENCE_S, "status 3"),
        ("while True: pass", 2, "longer than 2 s"),
    ],
    ids=["ends its process", "hangs"],
)
def test_an_export_that_does_not_end_costs_the_trace_nothing(
    artifact: ArtifactOf, does: str, export_s: float, told: str
) -> None:
    kept = artifact(submitted(DOUBLES % does), export_s=export_s)

    assert kept.check.verdict is Verdict.VERIFIED
    assert ways(kept) == {"direct": "failed", "trace-then-export": "not-tried", "source-to-source": "not-tried"}
    assert told in (attempts(kept)["forward", "direct"].detail or "")


def test_what_a_model_raises_or_prints_in_an_export_is_data(work: Work, store: Store) -> None:
    request = work(submitted(DOUBLES % "print('said again ' * 10**6); raise SystemExit('enough ' * 10**6)"))

    direct = attempts(of(store, request))["forward", "direct"]
    assert (direct.outcome, direct.error, direct.file, direct.line) == ("failed", "SystemExit", "net.py", 6)
    events = store.events.after(TENANT, request.id, 0, 1000)
    assert not any("said again" in str(event) for event in events)


SUCCEEDED = 'method="forward", way="direct", outcome="succeeded"'


def test_a_program_that_is_too_large_is_not_kept_and_the_trace_is(artifact: ArtifactOf) -> None:
    kept = artifact(submitted(SAYS % (SUCCEEDED, 10**7)), result_max_bytes=10**7)

    assert (kept.exported, kept.check.verdict) == (None, Verdict.VERIFIED)
    assert "may have 10000000 bytes" in (attempts(kept)["forward", "direct"].detail or "")
    assert ways(kept)["source-to-source"] == "succeeded"


@pytest.mark.parametrize(
    "said",
    [
        'method="forward", way="direct", outcome="failed"',
        'method="forward", way="trace-then-export", outcome="succeeded"',
        'method="other", way="direct", outcome="succeeded"',
    ],
)
def test_a_program_that_belongs_to_no_attempt_is_not_kept(artifact: ArtifactOf, said: str) -> None:
    kept = artifact(submitted(SAYS % (said, 10)))

    assert (kept.exported, kept.check.verdict) == (None, Verdict.VERIFIED)
    assert ways(kept)["direct"] == "failed"


@pytest.mark.parametrize(
    "sends",
    [
        'self._channel.send({"kind": "file", "name": "exported"}, b"x")',
        'self._channel.send({"kind": "progress", "stage": "exporting", "progress": 0.9})',
    ],
)
def test_a_program_that_comes_before_the_last_word_is_refused(work: Work, sends: str) -> None:
    source = f"""
from workers.programs.tracer import Tracing
import torch
progress = Tracing._progress
def lying(self, *said):
    if said[0] == "printing":
        {sends}
    progress(self, *said)
Tracing._progress = lying
class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2
"""
    request = work(submitted(source))

    assert request.state is State.FAILED
    assert request.failure is not None
    assert request.failure.slug == "model-crashed"


@pytest.mark.parametrize("jail", offered_tiers())
def test_every_jail_lets_a_model_be_exported_or_says_what_it_needs(
    store: Store, add: Callable[..., str], tier: Tier, torch_zygote: Zygote, jail: Tier
) -> None:
    request_id = add(spec("linear", example_inputs=[X], options=WANTED, check=OFF))
    with nullcontext(torch_zygote) if jail is tier else Zygote(PROGRAMS, tier=jail) as zygote:
        Worker(store, zygote, NO_ENVIRONMENTS, LIMITS, attempts=1).run(request_id, Cancellation())

    kept = of(store, store.trace_requests.get(TENANT, request_id))
    if jail.reads_packages:
        assert set(ways(kept).values()) == {"succeeded"}
        return
    assert kept.exportability is not None
    assert (kept.exportability.readiness, set(ways(kept).values())) == ("unknown", {"not-tried"})
    assert "PRELOAD" in kept.exportability.note
