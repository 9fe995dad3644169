"""Claims: what the tracing child says of other sizes holds only where it comes out right here as well."""

from collections.abc import Callable
from typing import Any

import pytest

from service.domain.trace_request import TraceRequest
from tests.submissions import tensor
from tests.workers.conftest import ArtifactOf, Work
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import MethodContract
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict

# A check that claims this, and says nothing that would not agree with it.
CLAIMING = """
import torch
from tracehouse.contract.contract import MethodClaim
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.check import check

def run(self, *given):
    said = TraceCheck(
        verdict="verified", tolerance=self._tolerance, comparisons=[], findings=[], torch=TorchCheck(ran=False)
    )
    return check.CheckResult(said, [], {{"forward": MethodClaim.model_validate({claim!r})}})

check.Check.run = run
"""
BAKES_ITS_LENGTH = """
def Net(x):
    return x * torch.arange(len(x[0]), dtype=x.dtype)
"""
BAKES_LONG_LENGTHS = """
def Net(x):
    return x * 2 if x.shape[1] <= 6 else x * 3
"""
DOUBLES = "def Net(x):\n    return x * 2\n"
REFUSES_OTHERS = """
def Net(x):
    if x.shape[1] != 4:
        raise ValueError("four features")
    return x * 2
"""
# So many values that eager and artifact never drop the same ones by chance, at the smallest size either.
DRAWS_IN_PYTHON = "import random\ndef Net(x):\n    return x.repeat(1, 16) * random.random()\n"
ANSWERS_TWICE_AS_MUCH_WHEN_TRACED = "def Net(x):\n    return x * 2 if torch.jit.is_tracing() else x\n"
SEES_OTHER_ROWS = "def Net(x):\n    return x - x.mean(0) * 1e-3\n"
LOOKS_IDS_UP = """
TABLE = torch.arange(40.0).reshape(10, 4)
def Net(x):
    return TABLE[x]
"""
TAKES_ONE_DATATYPE = LOOKS_IDS_UP.replace("TABLE[x]", "TABLE[x] * (1 if x.dtype is torch.int64 else 2)")
ANSWERS_IN_KIND = "def Net(x):\n    return x * 2\n"

X = tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.5]])
BATCH_AND_LENGTH = {"shapes": {"x": ["batch", "seq"]}}
BATCH = {"shapes": {"x": ["batch", 4]}, "fixed": {"x": {"1": "model"}}}


def span(low: int, high: int, step: int = 1) -> dict[str, int]:
    return {"low": low, "high": high, "step": step}


def region(known: str, **spans: list[dict[str, int]]) -> dict[str, Any]:
    return {"spans": spans, "basis": known}


def submitted(source: str, claim: dict[str, Any], **members: Any) -> dict[str, Any]:
    text = CLAIMING.format(claim=claim) + source
    inline = {"files": {"net.py": text}, "entrypoint": "net:Net"}
    return {"model": "net", "source": inline, "example_inputs": [X], **members}


Claimed = Callable[..., Artifact]


@pytest.fixture
def claimed(artifact: ArtifactOf) -> Claimed:
    """What is stored where the tracing child claims this."""

    def claimed(source: str, claim: dict[str, Any], **members: Any) -> Artifact:
        return artifact(submitted(source, claim, accept_unsound=True, **members))

    return claimed


def forward(kept: Artifact) -> MethodContract:
    return kept.contract.methods["forward"]


def regions(kept: Artifact) -> list[str]:
    return [f"{one.basis}: {one}" for one in forward(kept).regions]


def kinds(kept: Artifact) -> dict[str, Finding]:
    return {finding.kind: finding for finding in kept.check.findings}


def test_a_proven_region_that_comes_out_right_is_the_contracts(claimed: Claimed) -> None:
    claim = {**BATCH_AND_LENGTH, "regions": [region("proven", batch=[span(1, 8)], seq=[span(1, 12)])]}
    kept = claimed(DOUBLES, claim)

    assert regions(kept) == ["proven: batch 1 to 8, seq 1 to 12"]
    assert forward(kept).outputs[0].shape == ("batch", "seq")
    assert kept.check.verdict is Verdict.VERIFIED
    tried = {one.case for one in kept.check.comparisons if one.agrees and one.in_contract}
    corners = {f"fresh at batch {batch}, seq {seq}" for batch in (1, 8) for seq in (1, 12)}
    assert corners <= tried


def test_a_forged_region_of_a_model_that_bakes_its_length_is_found_out(claimed: Claimed) -> None:
    claim = {**BATCH_AND_LENGTH, "regions": [region("proven", batch=[span(1, 8)], seq=[span(1, 12)])]}
    kept = claimed(BAKES_ITS_LENGTH, claim)

    assert forward(kept).inputs[0].shape[1] == 4
    assert forward(kept).inputs[0].reason(1) == "trace"
    assert kept.check.verdict is Verdict.RESTRICTED
    found = kinds(kept)["baked-size"]
    assert found.confirmed
    assert found.detail.startswith("forward with x [")
    assert found.evidence["sizes"] != {"batch": 2, "seq": 4}
    assert found.evidence["region"] == "batch 1 to 8, seq 1 to 12"


@pytest.mark.parametrize("source", [DRAWS_IN_PYTHON, ANSWERS_TWICE_AS_MUCH_WHEN_TRACED])
def test_nothing_is_said_of_sizes_where_it_is_not_the_size_that_differs(claimed: Claimed, source: str) -> None:
    kept = claimed(source, {**BATCH, "regions": [region("proven", batch=[span(1, 8)])]})

    assert kept.check.verdict is Verdict.REJECTED
    assert "baked-size" not in kinds(kept)
    assert forward(kept).inputs[0].shape == (2, 4)
    assert forward(kept).inputs[0].reason(0) == "untried"


def test_the_sizes_that_came_out_right_stay_where_the_others_go(claimed: Claimed) -> None:
    tried = region("tested", batch=[span(2, 2)], seq=[span(1, 9)])
    kept = claimed(BAKES_LONG_LENGTHS, {**BATCH_AND_LENGTH, "regions": [tried]})

    assert regions(kept) == ["tested: seq 1 to 6"]
    assert forward(kept).inputs[0].shape == (2, "seq")
    assert {"seq": 7} in forward(kept).wrong


def test_a_region_of_which_eager_refuses_every_size_is_left_out(claimed: Claimed) -> None:
    kept = claimed(
        REFUSES_OTHERS, {**BATCH_AND_LENGTH, "regions": [region("proven", batch=[span(2, 2)], seq=[span(5, 9)])]}
    )

    assert forward(kept).inputs[0].shape == (2, 4)
    assert "four features" in kinds(kept)["sizes-refused"].detail
    assert kept.check.verdict is Verdict.VERIFIED


def test_what_the_budget_cuts_is_listed_and_not_in_the_contract(claimed: Claimed) -> None:
    slow = "import time\ndef Net(x):\n    time.sleep(0.02)\n    return x * 2\n"
    tried = region("tested", batch=[span(2, 2)], seq=[span(1, 300)])
    kept = claimed(slow, {**BATCH_AND_LENGTH, "regions": [tried]}, check={"budget_s": 1.0})

    cut = kinds(kept)["sizes-left-out"]
    assert "batch 2, seq 300" in str(cut.evidence["sizes"])
    (held,) = forward(kept).regions
    assert held.contains({"seq": 1})
    assert not held.contains({"seq": 300})


def test_smaller_sizes_stand_in_for_those_of_a_range_that_take_too_long(claimed: Claimed) -> None:
    """A call burns a hundredth of a second for each thousand elements, so the largest would take all of the budget."""
    slow = """\
import time

def Net(x):
    until = time.process_time() + x.numel() * 1e-5
    while time.process_time() < until:
        pass
    return x * 2
"""
    proven = region("proven", batch=[span(1, 256)], seq=[span(1, 1024)])
    rows = {"symbol": "batch", "up_to": 8, "inputs": {"x": 0}, "outputs": {"output": 0}}
    kept = claimed(slow, {**BATCH_AND_LENGTH, "regions": [proven], "batch": rows}, check={"budget_s": 10.0})

    calls = {seen.case for seen in kept.check.comparisons if "at batch" in seen.case}
    assert len(calls) > 6
    assert not any("batch 256, seq 1024" in case for case in calls)
    assert "sizes-left-out" not in kinds(kept)
    assert forward(kept).batch is not None
    assert forward(kept).batch.up_to == 8
    assert regions(kept) == ["proven: batch 1 to 256, seq 1 to 1024"]


def test_with_probes_off_nothing_is_claimed(claimed: Claimed) -> None:
    claim = {**BATCH_AND_LENGTH, "regions": [region("proven", batch=[span(1, 8)], seq=[span(1, 12)])]}
    kept = claimed(DOUBLES, claim, check={"probes": "off"})

    assert forward(kept).inputs[0].shape == (2, 4)


ROWS = {"symbol": "batch", "up_to": 8, "inputs": {"x": 0}, "outputs": {"output": 0}}


def test_rows_that_do_not_see_one_another_are_certified(claimed: Claimed) -> None:
    kept = claimed(DOUBLES, {**BATCH, "regions": [region("proven", batch=[span(1, 8)])], "batch": ROWS})

    assert forward(kept).batch is not None
    assert forward(kept).batch.up_to == 8


def test_a_forged_certificate_of_rows_is_found_out(claimed: Claimed) -> None:
    kept = claimed(SEES_OTHER_ROWS, {**BATCH, "regions": [region("proven", batch=[span(1, 8)])], "batch": ROWS})

    assert forward(kept).batch is None
    assert regions(kept) == ["proven: batch 1 to 8"]
    assert "'output' differs" in kinds(kept)["rows-depend"].detail


@pytest.mark.parametrize(
    "rows",
    [
        {**ROWS, "inputs": {"y": 0}},
        {**ROWS, "outputs": {"output.3": 0}},
        {**ROWS, "inputs": {"x": 7}},
        {**ROWS, "symbol": "seq"},
        {**ROWS, "up_to": 0},
    ],
)
def test_a_certificate_of_leaves_that_there_are_not_is_a_fault_of_the_process(work: Work, rows: dict[str, Any]) -> None:
    request = work(submitted(DOUBLES, {**BATCH, "regions": [region("proven", batch=[span(1, 8)])], "batch": rows}))

    assert_crashed(request)


@pytest.mark.parametrize(
    "claim",
    [
        {"shapes": {"y": ["batch"]}},
        {"shapes": {"x": ["batch"]}},
        {"shapes": {"x": ["batch", 5]}, "regions": [region("proven", batch=[span(1, 8)])]},
        {"shapes": {"x": ["3*batch", 4]}, "regions": [region("proven", batch=[span(1, 8)])]},
        {"shapes": {"x": ["a+b", "a"]}, "regions": [region("proven", c=[span(1, 8)])]},
        {**BATCH, "regions": [region("proven", batch=[span(1, 8)])], "values": {"x": {"low": 0, "basis": "tested"}}},
        {**BATCH, "regions": [region("proven", batch=[span(1, 8)])], "wrong": [{"batch": 3}]},
    ],
)
def test_a_claim_of_another_example_is_a_fault_of_the_process(work: Work, claim: dict[str, Any]) -> None:
    assert_crashed(work(submitted(DOUBLES, claim)))


def assert_crashed(request: TraceRequest) -> None:
    assert request.failure is not None
    assert request.failure.slug == "model-crashed"


def test_sizes_of_terabytes_are_shrunk_or_left_out(claimed: Claimed) -> None:
    claim = {**BATCH_AND_LENGTH, "regions": [region("proven", batch=[span(1, 2**40)], seq=[span(1, 2**40)])]}
    kept = claimed(DOUBLES, claim)

    assert regions(kept) == ["proven: batch 1 to 1099511627776, seq 1 to 1099511627776"]


def test_a_range_of_integers_is_repeated_at_its_ends(claimed: Claimed) -> None:
    ids = tensor([[1, 3, 4, 7]], "INT64")
    shapes = {"shapes": {"x": [1, 4]}}
    right = claimed(
        LOOKS_IDS_UP, {**shapes, "values": {"x": {"low": 0, "high": 9, "basis": "tested"}}}, example_inputs=[ids]
    )
    forged = claimed(
        LOOKS_IDS_UP, {**shapes, "values": {"x": {"low": 0, "high": 10, "basis": "tested"}}}, example_inputs=[ids]
    )

    assert forward(right).inputs[0].values is not None
    assert forward(forged).inputs[0].values is None
    assert kinds(forged)["range-refused"].evidence["value"] == 10


def test_an_open_contract_says_so(claimed: Claimed) -> None:
    kept = claimed(DOUBLES, {"shapes": {}}, check={"contract": "open"})

    assert kept.contract.open


BRANCHES_ON_VALUES = """
def Net(x):
    return x * 2 if x.max() < 50 else x * 3
"""
OFFERING = """
import numpy
from types import SimpleNamespace
from workers.programs.tracer import Tracing
exporting = Tracing._plan_export
def send_case(self):
    data = numpy.full((3, 5), 60, numpy.float32).tobytes()
    x = {"name": "x", "datatype": "FP32", "shape": [3, 5]}
    case = {"kind": "case", "name": "counterexample: large", "method": "forward", "inputs": [x]}
    self._channel.send(case, data)
def send_case_first(self, candidate, outputs):
    send_case(self)
    return exporting(self, candidate, outputs)
Tracing._plan_export = send_case_first
"""


def test_a_case_of_other_sizes_that_differs_by_its_values_rejects(claimed: Claimed) -> None:
    """It is no way out that its sizes lie outside the contract."""
    kept = claimed(OFFERING + BRANCHES_ON_VALUES, {"shapes": {}})

    cases = {one.case: one for one in kept.check.comparisons}
    assert not cases["counterexample: large"].in_contract
    assert not cases["counterexample: large"].agrees
    assert cases["counterexample: large, its values at the example's sizes"].in_contract
    assert kept.check.verdict is Verdict.REJECTED


def test_a_case_of_other_sizes_that_differs_by_them_restricts(claimed: Claimed) -> None:
    kept = claimed(OFFERING + BAKES_ITS_LENGTH, {"shapes": {}})

    assert kept.check.verdict is Verdict.RESTRICTED
    assert kinds(kept)["output-differs-elsewhere"].counterexample == 0


def test_a_case_within_a_region_takes_the_region_away(claimed: Claimed) -> None:
    """Which no corner and no point at random of it would have done."""
    source = "def Net(x):\n    return x * 3 if x.shape == (3, 5) and x[0, 0] == 60 else x * 2\n"
    claim = {**BATCH_AND_LENGTH, "regions": [region("proven", batch=[span(1, 900)], seq=[span(1, 900)])]}
    kept = claimed(OFFERING + source, claim)

    assert not any(one.basis == "proven" for one in forward(kept).regions)
    assert kinds(kept)["baked-size"].evidence["case"] == "counterexample: large"


@pytest.mark.parametrize(
    ("source", "holds"), [(LOOKS_IDS_UP, True), (TAKES_ONE_DATATYPE, False), (ANSWERS_IN_KIND, False)]
)
def test_claimed_datatypes_are_the_contracts_if_both_answer_the_same(
    claimed: Claimed, source: str, holds: bool
) -> None:
    ids = {"datatype": "INT64", "shape": [2, 2], "data": [1, 5, 2, 9]}
    kept = claimed(source, {"shapes": {"x": [2, 2]}, "datatypes": {"x": ["INT64", "INT32"]}}, example_inputs=[ids])

    assert forward(kept).inputs[0].datatypes == (["INT64", "INT32"] if holds else [])
    assert kept.check.verdict is Verdict.VERIFIED


FOLLOWS = {"datatypes": {"x": ["INT64", "INT32"]}, "datatype_of": {"output": "x"}}


@pytest.mark.parametrize(("source", "holds"), [(ANSWERS_IN_KIND, True), (LOOKS_IDS_UP, False)])
def test_an_output_follows_an_input_if_both_answer_so(claimed: Claimed, source: str, holds: bool) -> None:
    ids = {"datatype": "INT64", "shape": [2, 2], "data": [1, 5, 2, 9]}
    claim = {"shapes": {"x": [2, 2]}, **FOLLOWS}
    if source is LOOKS_IDS_UP:  # what it returns is a float, so the claim is none of this example
        source = LOOKS_IDS_UP.replace("TABLE[x]", "TABLE.long()[x]")
    kept = claimed(source, claim, example_inputs=[ids])

    assert forward(kept).inputs[0].datatypes == (["INT64", "INT32"] if holds else [])
    assert forward(kept).outputs[0].datatype_of == ("x" if holds else None)
    assert kept.check.verdict is Verdict.VERIFIED


def test_of_claimed_datatypes_those_that_hold_are_the_contracts(claimed: Claimed) -> None:
    source = "def Net(x):\n    return x * (3 if x.dtype is torch.float16 else 2)\n"
    claim = {
        **BATCH_AND_LENGTH,
        "regions": [region("proven", batch=[span(1, 8)], seq=[span(1, 12)])],
        "datatypes": {"x": ["FP32", "FP64", "FP16", "BF16"]},
        "datatype_of": {"output": "x"},
    }
    kept = claimed(source, claim)

    assert forward(kept).inputs[0].datatypes == ["FP32", "FP64", "BF16"]
    assert forward(kept).outputs[0].datatype_of == "x"


def test_a_datatype_that_is_wrong_at_large_sizes_is_found_out(claimed: Claimed) -> None:
    source = "def Net(x):\n    return x * (3 if x.dtype is torch.float16 and len(x) > 6 else 2)\n"
    claim = {
        **BATCH_AND_LENGTH,
        "regions": [region("proven", batch=[span(1, 8)], seq=[span(1, 12)])],
        "datatypes": {"x": ["FP32", "FP16"]},
        "datatype_of": {"output": "x"},
    }

    assert forward(claimed(source, claim)).inputs[0].datatypes == []


def test_an_output_that_follows_no_such_input_is_a_fault_of_the_process(work: Work) -> None:
    claim = {"shapes": {"x": [2, 4]}, "datatypes": {"x": ["FP32", "FP64"]}, "datatype_of": {"output": "y"}}

    assert_crashed(work(submitted(DOUBLES, claim)))


def test_a_call_of_another_datatype_and_size_takes_no_region_away(claimed: Claimed) -> None:
    """The output has the datatype of the input there, which is not the example's."""
    claim = {
        **BATCH_AND_LENGTH,
        "regions": [region("proven", batch=[span(1, 8)], seq=[span(1, 12)])],
        "datatypes": {"x": ["FP32", "FP64"]},
        "datatype_of": {"output": "x"},
    }
    wide = tensor([[1.0, 2.0, 3.0]] * 5, "FP64")
    kept = claimed(DOUBLES, claim, check={"check_inputs": [[wide]]})

    assert regions(kept) == ["proven: batch 1 to 8, seq 1 to 12"]
    assert forward(kept).inputs[0].datatypes == ["FP32", "FP64"]
    assert next(one for one in kept.check.comparisons if one.case == "check_inputs[0]").in_contract
