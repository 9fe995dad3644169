"""What an earlier release stored, under the names that fields had then, is read as what it says."""

import json

from tests.conftest import make_artifact
from tracehouse.artifact.conversion_attempt import ConversionAttempt
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.input_spec import ValueRange
from tracehouse.contract.regions import Region, Span
from tracehouse.findings.finding import Finding
from tracehouse.findings.trace_check import Layer
from tracehouse.findings.verdict import Verdict


def test_an_artifact_of_an_earlier_release_keeps_its_attempts() -> None:
    attempt = ConversionAttempt(way="trace", verdict=Verdict.VERIFIED, kept=True)
    artifact = make_artifact(attempts=[attempt])
    stored = json.loads(artifact.manifest())
    stored["tried"] = stored.pop("attempts")

    assert Artifact.model_validate(stored) == artifact


def test_the_basis_of_a_clause_was_called_known() -> None:
    region = {"spans": {"batch": [{"low": 1, "high": 4, "step": 1}]}, "known": "proven"}

    assert Region.model_validate(region) == Region(spans={"batch": [Span(low=1, high=4)]}, basis="proven")
    assert ValueRange.model_validate({"low": 0, "high": 9, "known": "tested"}).basis == "tested"


def test_the_summary_of_a_layer_was_called_did() -> None:
    layer = {"name": "flip", "method": "forward", "seconds": 0.5, "did": "no reads", "left_out": []}

    assert Layer.model_validate(layer).summary == "no reads"


def test_the_divergence_in_a_findings_evidence_was_called_parting() -> None:
    divergence = {"kind": "const", "operator": "aten::add", "was": "1", "is": "2"}
    finding = {"kind": "baked-value", "detail": "-", "evidence": {"method": "forward", "parting": divergence}}

    assert Finding.model_validate(finding).evidence == {"method": "forward", "divergence": divergence}
