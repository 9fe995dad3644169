"""Mode auto: a trace, and where it leaves doubts parts of the model are scripted, or all of it."""

from collections.abc import Callable
from typing import Any

from service.domain.trace_request import State, TraceRequest
from service.storage.database import Store
from tests.conftest import TENANT
from tests.submissions import spec, tensor
from tracehouse.artifact.manifest import Artifact
from tracehouse.findings.verdict import Verdict

Work = Callable[..., TraceRequest]


def artifact_of(store: Store, ended: TraceRequest) -> Artifact:
    assert ended.state is State.SUCCEEDED, ended.failure
    return store.artifacts.get(TENANT, ended.artifacts[0].digest)


def attempts_of(ended: TraceRequest) -> list[Any]:
    assert ended.failure is not None
    attempts = ended.failure.facts["attempts"]
    assert isinstance(attempts, list)
    return attempts


def auto(name: str, entrypoint: str = "Net", *inputs: Any, **members: Any) -> dict[str, Any]:
    return spec(name, entrypoint, mode="auto", example_inputs=list(inputs) or [tensor([1.0, -2.0])], **members)


def test_a_trace_without_doubts_is_kept(work: Work, store: Store) -> None:
    kept = artifact_of(store, work(auto("linear", "Net", {"datatype": "FP32", "shape": [1, 4], "random": {}})))

    assert (kept.form, [attempt.way for attempt in kept.attempts]) == ("traced", ["trace"])


def test_the_submodule_that_branches_is_scripted(work: Work, store: Store) -> None:
    ended = work(auto("branches_in_a_part"))
    kept = artifact_of(store, ended)

    assert (ended.verdict, kept.form) == (Verdict.VERIFIED, "mixed")
    assert [(attempt.way, attempt.verdict) for attempt in kept.attempts] == [
        ("trace", Verdict.REJECTED),
        ("trace, with gate scripted", Verdict.VERIFIED),
    ]


def test_the_function_that_branches_is_scripted(work: Work, store: Store) -> None:
    ended = work(auto("branches_in_a_function"))
    kept = artifact_of(store, ended)

    assert (ended.verdict, kept.form) == (Verdict.VERIFIED, "mixed")
    assert kept.attempts[-1].way == "trace, with branches_in_a_function.clipped scripted"
    assert [attempt.kept for attempt in kept.attempts] == [False, True]


def test_a_part_of_a_name_that_cannot_be_told_is_scripted_with_the_whole(work: Work, store: Store) -> None:
    source = (
        "import torch\nfrom branches_in_a_part import *\n"
        "class Named(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.gates = torch.nn.ModuleDict({'a gate': Net()})\n"
        "    def forward(self, x: torch.Tensor):\n"
        "        for gate in self.gates.values():\n"
        "            x = gate(x)\n"
        "        return x\n"
    )
    files = {**auto("branches_in_a_part")["source"]["files"], "named.py": source}
    ended = work({**auto("branches_in_a_part"), "source": {"files": files, "entrypoint": "named:Named"}})

    assert [attempt.way for attempt in artifact_of(store, ended).attempts] == ["trace", "script"]


def test_a_model_that_branches_itself_is_scripted_whole(work: Work, store: Store) -> None:
    ended = work(auto("branches_on_data"))
    kept = artifact_of(store, ended)

    assert (ended.verdict, kept.form) == (Verdict.VERIFIED, "scripted")
    assert [attempt.way for attempt in kept.attempts] == ["trace", "script"]


def test_where_no_way_is_right_the_trace_stays_and_says_why(work: Work, store: Store) -> None:
    ended = work(auto("branches_where_no_script_goes"))
    kept = artifact_of(store, ended)

    assert (ended.verdict, kept.form, ended.model) == (Verdict.REJECTED, "traced", None)
    assert [attempt.kept for attempt in kept.attempts] == [True, False]
    [_, scripted] = kept.attempts
    assert (scripted.way, scripted.verdict) == ("script", None)
    assert "torch cannot script this" in (scripted.detail or "")
    assert not [finding for finding in kept.check.findings if "mode" in (finding.remedy or "")]


def test_what_cannot_be_traced_is_scripted(work: Work, store: Store) -> None:
    source = "def forward(x):\n    return {'a': {'b': x * 2}}\n"
    submitted = {"source": {"files": {"net.py": source}, "entrypoint": "net:forward"}, "options": {"strict": False}}
    kept = artifact_of(store, work({**auto("linear"), **submitted}))

    assert kept.form == "scripted"


def test_what_the_model_itself_raises_is_not_tried_again_and_the_problem_says_so(work: Work) -> None:
    ended = work(auto("raises_in_forward", "Net", tensor([[1.0, 2.0]])))

    assert ended.failure is not None
    assert ended.failure.slug == "model-raised"
    [_, scripted] = attempts_of(ended)
    assert scripted["way"] == "script"
    assert "not tried" in scripted["detail"]


def test_where_nothing_works_the_problem_says_why_scripting_did_not_and_advises_no_mode_auto(work: Work) -> None:
    source = "def forward(x):\n    return {'a': {'b': (lambda y: y)(x)}}\n"
    submitted = {"source": {"files": {"net.py": source}, "entrypoint": "net:forward"}, "options": {"strict": False}}
    ended = work({**auto("linear"), **submitted})

    assert ended.failure is not None
    assert ended.failure.slug == "unsupported-dict"
    assert "auto" not in str(ended.failure.facts.get("remedy"))
    [traced, scripted] = attempts_of(ended)
    assert (traced["way"], traced["detail"]) == ("trace", ended.failure.detail)
    assert "Lambda aren't supported" in scripted["detail"]


def test_what_the_source_prints_is_logged_once(work: Work, store: Store) -> None:
    ended = work(auto("branches_aloud"))
    logged = "".join(store.events.log(TENANT, ended.id))

    assert [attempt.way for attempt in artifact_of(store, ended).attempts] == ["trace", "script"]
    assert logged.count("here it is") == 1


def test_a_read_that_only_validates_is_no_doubt(work: Work, store: Store) -> None:
    kept = artifact_of(store, work(auto("refuses_negatives", "Net", tensor([1.0, 2.0]))))

    assert [finding.effect for finding in kept.check.findings if finding.effect] == ["harmless"]
    assert [attempt.way for attempt in kept.attempts] == ["trace"]


def test_a_size_that_a_trace_keeps_is_open_in_a_script(work: Work, store: Store) -> None:
    inputs = [tensor([[1, 2, 3, 4]], "INT64"), tensor([[1, 1, 0, 1]], "INT64")]
    ended = work(spec("keeps_its_length", mode="auto", example_inputs=inputs))
    kept = artifact_of(store, ended)

    assert (ended.verdict, kept.form) == (Verdict.VERIFIED, "scripted")
    assert [(attempt.way, attempt.verdict) for attempt in kept.attempts] == [
        ("trace", Verdict.RESTRICTED),
        ("script", Verdict.VERIFIED),
    ]
