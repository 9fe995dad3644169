"""Other ranks: the contract takes them if an input has them and two processes find the artifact right for it."""

from typing import Any

import pytest

from tests.submissions import spec, tensor
from tests.workers.conftest import ArtifactOf, Work
from tests.workers.verification.test_samples import npz
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import MethodContract
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype, TensorSpec

X = tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.5]])
CUBE = tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.5], [0.0, 1.0, 2.0, 4.0]]])  # their sum is 43.5
ROW = tensor([1.0, 2.0, 3.0, 4.5])

DOUBLES = "def Net(x):\n    return x * 2\n"
BRANCHES_ON_VALUES = """
def Net(x):
    if x.dim() == 3 and float(x.sum()) > 1000.0:
        return x * 3
    return x * 2
"""
TRIPLES_LONG_CUBES = """
def Net(x):
    return x * 3 if x.dim() == 3 and x.shape[1] > 7 else x * 2
"""
TRIPLES_OTHER_CUBES = """
def Net(x):
    return x * 3 if x.dim() == 3 and float(x.sum()) != 43.5 else x * 2
"""
DRAWS_FOR_CUBES = "import torch\ndef Net(x):\n    return torch.nn.functional.dropout(x, 0.5, x.dim() == 3)\n"
RETURNS_THE_RANK = "def Net(x):\n    return x * 2, x.dim()\n"

# A check that finds nothing, and claims that the artifact is right for every cube.
CLAIMING = """
import torch
from tracehouse.check import check, other_ranks
from tracehouse.contract.contract import MethodClaim
from tracehouse.findings.trace_check import TorchCheck, TraceCheck

def run(self, *given):
    said = TraceCheck(
        verdict="verified", tolerance=self._tolerance, comparisons=[], findings=[], torch=TorchCheck(ran=False)
    )
    claim = MethodClaim.model_validate({claim!r})
    ranks = [other_ranks.CheckedRanks(case, claim, None) for case in {cases!r}]
    return check.CheckResult(said, [], {{}}, other_ranks={{"forward": ranks}})

check.Check.run = run
"""
ALL_CUBES = {
    "shapes": {"x": ["batch", "seq", "n"]},
    "regions": [
        {
            "spans": {one: [{"low": 1, "high": 16}] for one in ("batch", "seq", "n")},
            "basis": "proven",
        }
    ],
}


def inline(source: str, *check_inputs: Any, **members: Any) -> dict[str, Any]:
    return {
        "model": "net",
        "source": {"files": {"net.py": source}, "entrypoint": "net:Net"},
        "example_inputs": [X],
        "check": {"check_inputs": [[one] for one in check_inputs], "budget_s": 60.0},
        **members,
    }


def claiming(source: str, *check_inputs: Any, claim: Any = ALL_CUBES, cases: Any = ("check_inputs[0]",)) -> Any:
    return inline(CLAIMING.format(claim=claim, cases=[*cases]) + source, *check_inputs, accept_unsound=True)


def forward(kept: Artifact) -> MethodContract:
    return kept.contract.method("forward")


def takes(kept: Artifact, *shape: int) -> bool:
    return forward(kept).takes([TensorSpec(name="x", datatype=Datatype.FP32, shape=shape)])


def reasons(kept: Artifact) -> list[str]:
    return [finding.detail for finding in kept.check.findings if finding.kind == "ranks-not-covered"]


def test_a_sample_of_another_rank_opens_that_rank_with_sizes_of_its_own(artifact: ArtifactOf) -> None:
    cube = npz(**{"0/x": [[[1.0, 2.0, 3.0, 4.0]] * 3] * 2})
    kept = artifact(
        spec("linear", example_inputs=[X], check={"samples": [{"file": "s.npz", "count": 1}]}), {"s.npz": cube}
    )

    (cubes,) = forward(kept).other_ranks
    assert [region.basis for region in cubes.regions] == ["proven"]
    assert takes(kept, 5, 7, 4)
    assert not takes(kept, 4)
    assert kept.check.verdict is Verdict.VERIFIED


def test_a_rank_that_no_input_has_stays_refused(artifact: ArtifactOf) -> None:
    kept = artifact(inline(DOUBLES, CUBE))

    assert takes(kept, 2, 3, 4)
    assert not takes(kept, 4)
    assert not takes(kept, 1, 1, 1, 4)


def test_several_ranks_are_taken_each_from_its_own_input(artifact: ArtifactOf) -> None:
    kept = artifact(inline(DOUBLES, CUBE, ROW))

    assert [other.ranks for other in forward(kept).other_ranks] == [{"x": 3}, {"x": 1}]


@pytest.mark.parametrize("source", [BRANCHES_ON_VALUES, TRIPLES_LONG_CUBES, DRAWS_FOR_CUBES, RETURNS_THE_RANK])
def test_a_rank_for_which_the_trace_is_not_right_is_refused_and_the_reason_is_told(
    artifact: ArtifactOf, source: str
) -> None:
    kept = artifact(inline(source, CUBE, accept_unsound=True))

    assert forward(kept).other_ranks == []
    assert len(reasons(kept)) == 1
    assert takes(kept, 2, 4)


def test_drawn_inputs_of_the_rank_are_compared_by_both_processes(artifact: ArtifactOf) -> None:
    kept = artifact(claiming(DOUBLES, CUBE))

    drawn = [one for one in kept.check.comparisons if one.case.endswith("in the ranks of check_inputs[0]")]
    assert len(drawn) > 4
    assert all(one.agrees and one.in_contract for one in drawn)
    assert takes(kept, 16, 16, 16)


@pytest.mark.parametrize(
    ("source", "claim"),
    [
        (TRIPLES_LONG_CUBES, ALL_CUBES),
        (DRAWS_FOR_CUBES, ALL_CUBES),
        (TRIPLES_OTHER_CUBES, {"shapes": {"x": [1, 3, 4]}}),  # which only drawn values show
    ],
)
def test_a_claim_that_does_not_come_out_right_in_the_second_process_is_dropped(
    artifact: ArtifactOf, source: str, claim: Any
) -> None:
    kept = artifact(claiming(source, CUBE, claim=claim))

    assert forward(kept).other_ranks == []
    assert len(reasons(kept)) == 1


@pytest.mark.parametrize(
    "submitted",
    [
        claiming(DOUBLES, CUBE, cases=["example"]),
        claiming(DOUBLES, CUBE, cases=["check_inputs[1]"]),
        claiming(DOUBLES, CUBE, cases=["check_inputs[0]", "check_inputs[0]"]),
        claiming(DOUBLES, X),
        claiming(DOUBLES, CUBE, claim={"shapes": {"y": ["batch"]}}),
    ],
)
def test_a_claim_about_an_input_that_has_no_other_ranks_fails_the_request(work: Work, submitted: Any) -> None:
    request = work(submitted)

    assert request.failure is not None
    assert request.failure.slug == "model-crashed"


def test_without_probes_only_the_example_is_accepted(artifact: ArtifactOf) -> None:
    submitted = inline(DOUBLES, CUBE)
    kept = artifact({**submitted, "check": {**submitted["check"], "probes": "off"}})

    assert not takes(kept, 1, 3, 4)


def test_with_buckets_no_other_rank_is_accepted(artifact: ArtifactOf) -> None:
    kept = artifact(
        inline(TRIPLES_LONG_CUBES, CUBE, dynamic={"x": {"1": "n"}}, buckets={"n": [4]}, accept_unsound=True)
    )

    assert forward(kept).other_ranks == []
