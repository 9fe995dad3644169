"""Training: a model in train mode, or in the mode that the source leaves it in, is served in it, and that is said."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.submissions import spec, tensor
from tests.workers.conftest import ArtifactOf, Told
from tracehouse.artifact.manifest import Artifact
from tracehouse.eager import model as models
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import Training

# Without the layers of the check: what is shown is in which mode each part is.
OFF = {"probes": "off"}
X = tensor([[1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 0.0, -1.0], [0.0, 1.0, 5.0, 2.0]])


def modes(kept: Artifact) -> list[Finding]:
    return [finding for finding in kept.check.findings if finding.kind == "training-mode"]


def paths(finding: Finding) -> list[Any]:
    modules = finding.evidence["modules"]
    assert isinstance(modules, list)
    return [(one["path"], one["type"]) for one in modules if isinstance(one, dict)]


def test_a_dropout_in_train_mode_is_stochastic_and_named(artifact: ArtifactOf) -> None:
    kept = artifact(spec("dropout_in_training_only", example_inputs=[X], training=True))

    (finding,) = modes(kept)
    assert (kept.training, kept.check.verdict) == (True, Verdict.VERIFIED)
    assert kept.contract.method("forward").stochastic
    assert paths(finding) == [("dropout", "Dropout")]
    assert finding.source == "return self.dropout(x)"
    kinds = {one.kind for one in kept.check.findings}
    assert "stochastic" in kinds
    assert not {"baked-size", "output-differs-elsewhere"} & kinds


@pytest.mark.parametrize("training", [False, None])
def test_eval_mode_is_what_nobody_need_ask_for(artifact: ArtifactOf, training: bool | None) -> None:
    asked = {} if training is None else {"training": training}
    kept = artifact(spec("dropout_in_training_only", example_inputs=[X], check=OFF, **asked))

    assert (kept.training, kept.check.verdict) == (False, Verdict.VERIFIED)
    assert modes(kept) == []


@pytest.mark.parametrize("training", [True, "as-is"])
def test_a_norm_in_train_mode_answers_as_eager_and_what_it_does_besides_is_said(
    artifact: ArtifactOf, training: Training
) -> None:
    check = {} if training is True else OFF  # one has the layers of the check
    kept = artifact(spec("normalises_by_the_batch", example_inputs=[X], training=training, check=check))

    (finding,) = modes(kept)
    assert kept.check.verdict is Verdict.VERIFIED, kept.check.findings
    assert paths(finding) == [("norm", "BatchNorm1d")]
    assert finding.source == "return self.norm(self.linear(x))"
    assert "depends on all the others" in finding.detail


def test_in_eval_mode_the_norm_answers_otherwise(artifact: ArtifactOf) -> None:
    kept = artifact(spec("normalises_by_the_batch", example_inputs=[X], check=OFF))

    assert kept.check.verdict is Verdict.VERIFIED
    assert modes(kept) == []


@pytest.mark.parametrize("name", ["reads_its_running_mean", "switches_its_norm"])
def test_running_statistics_that_an_answer_may_show_are_hidden_state(artifact: ArtifactOf, name: str) -> None:
    kept = artifact(spec(name, example_inputs=[X], training=True))

    assert kept.check.verdict is Verdict.REJECTED
    assert any(one.kind == "hidden-state" for one in kept.check.findings)


def test_as_is_keeps_the_mode_of_each_part(artifact: ArtifactOf) -> None:
    kept = artifact(spec("trains_a_part", example_inputs=[X], training="as-is", check=OFF))

    (finding,) = modes(kept)
    assert kept.check.verdict is Verdict.VERIFIED
    assert paths(finding) == [("head.1", "BatchNorm1d")]


def test_train_mode_is_the_mode_of_every_part(artifact: ArtifactOf) -> None:
    kept = artifact(spec("trains_a_part", example_inputs=[X], training=True, check=OFF))

    assert kept.check.verdict is Verdict.VERIFIED
    assert [paths(finding) for finding in modes(kept)] == [
        [("frozen.1", "Dropout")],
        [("head.1", "BatchNorm1d")],
    ]


@pytest.mark.parametrize(("training", "mode"), [(True, True), (False, False), ("as-is", True)])
def test_a_model_that_is_made_again_is_in_the_same_mode(load: Any, training: Training, mode: bool) -> None:
    model: models.LoadedModel = load("refuses_to_be_copied")
    model.module.train()
    model.set_mode(training)

    assert model.copy_module().training is mode


def test_numbers_that_are_drawn_and_show_in_no_answer_are_told(run: Callable[..., Told]) -> None:
    told = run(spec("drops_next_to_nothing", example_inputs=[X], training=True))

    drawn = told.findings["draws-random-numbers"]
    assert told.verdict is Verdict.VERIFIED
    assert (drawn.evidence["operator"], drawn.source) == ("aten::dropout", "return self.dropout(x)")
