"""Buckets: one artifact for each listed size where one artifact cannot take them all."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from service.domain.trace_request import State, TraceRequest
from service.storage.database import Store
from tests.conftest import TENANT
from tests.submissions import spec, tensor
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.contract.structure import Argument, TensorLeaf
from tracehouse.eager.call import bind
from tracehouse.eager.declared_sizes import resize_call
from tracehouse.errors import ArgumentMismatch
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype
from workers.buckets import free_symbol, takes

Work = Callable[..., TraceRequest]
DYNAMIC = {"ids": {"1": "seq"}, "mask": {"1": "seq"}}


def submitted(entrypoint: str = "Net", **members: Any) -> dict[str, Any]:
    inputs = [tensor([[1, 2, 3, 4]], "INT64"), tensor([[1, 1, 0, 1]], "INT64")]
    return spec("keeps_its_length", entrypoint, **{"example_inputs": inputs, "dynamic": DYNAMIC} | members)


@pytest.fixture
def artifacts(work: Work, store: Store) -> Callable[..., list[Artifact]]:
    """All that a submission gave."""

    def artifacts(given: dict[str, Any]) -> list[Artifact]:
        ended = work(given)
        assert ended.state is State.SUCCEEDED, ended.failure
        return [store.artifacts.get(TENANT, one.digest) for one in ended.artifacts]

    return artifacts


Artifacts = Callable[..., list[Artifact]]


@pytest.mark.parametrize("mode", ["trace", "auto"])
def test_each_listed_size_has_an_artifact_that_is_right_for_it(artifacts: Artifacts, store: Store, mode: str) -> None:
    made = artifacts(submitted("Unscriptable", mode=mode, buckets={"seq": [2, 6]}))

    assert [one.bucket for one in made] == [{"seq": 2}, {"seq": 6}]
    assert not any("buckets" in (found.remedy or "") for one in made for found in one.check.findings)
    for one in made:
        size = one.bucket["seq"]
        assert [spec.example for spec in one.contract.methods["forward"].inputs] == [(1, size), (1, size)]
        with store.blobs.open(one.archive.digest) as file:
            answer = torch.jit.load(file)(
                torch.ones(1, size, dtype=torch.int64), torch.ones(1, size, dtype=torch.int64)
            )
        assert answer.tolist() == [[1 + place for place in range(size)]]


def test_one_model_version_has_them_all_and_what_was_tried(artifacts: Artifacts, work: Work, store: Store) -> None:
    ended = work(submitted(buckets={"seq": [2, 6]}))
    assert ended.model is not None
    [version] = store.models.get(TENANT, ended.model.name).versions

    assert [(one.sizes, one.digest) for one in version.buckets] == [
        (artifact.bucket, artifact.digest) for artifact in ended.artifacts
    ]
    [first, _] = [store.artifacts.get(TENANT, one.digest) for one in ended.artifacts]
    assert [(one.way, one.kept) for one in first.attempts] == [
        ("trace", False),
        ("trace, for seq 2", True),
        ("trace, for seq 6", False),
    ]


def test_the_artifacts_of_all_buckets_cover_the_wanted_sizes_together(artifacts: Artifacts) -> None:
    made = artifacts(submitted("Unscriptable", buckets={"seq": [2, 6]}, sizes={"seq": {"low": 2, "high": 8}}))

    for one in made:
        [covered] = one.check.coverage
        assert (covered.requested, covered.covered, covered.missing) == (7, 2, {"seq": 3})
        assert one.check.verdict is Verdict.RESTRICTED
        assert [found.kind for found in one.check.findings].count("sizes-not-covered") == 1


def test_where_a_script_takes_all_listed_sizes_it_stands_alone(artifacts: Artifacts) -> None:
    [only] = artifacts(submitted(mode="auto", buckets={"seq": [2, 6]}))

    assert (only.bucket, only.form) == ({}, "scripted")
    assert [(one.way, one.kept) for one in only.attempts] == [("trace", False), ("script", True)]
    [said] = [one for one in only.check.findings if one.kind == "buckets-not-needed"]
    assert said.evidence == {"symbol": "seq", "sizes": [2, 6]}


@pytest.mark.parametrize(
    ("members", "offered"),
    [
        ({}, '{"buckets":{"seq":[4,8]}}'),
        (
            {"dynamic": {}},
            '{"dynamic":{"ids":{"0":"batch","1":"length"},"mask":{"0":"batch","1":"length"}},"buckets":{"length":[4,8]}}',
        ),
    ],
)
def test_where_a_size_stays_baked_in_the_remedy_names_the_buckets_to_send(
    artifacts: Artifacts, members: dict[str, Any], offered: str
) -> None:
    [only] = artifacts(submitted("Unscriptable", **members))

    assert only.check.verdict is Verdict.RESTRICTED
    [baked] = [one for one in only.check.findings if one.kind == "baked-size"]
    assert baked.remedy is not None
    assert offered in baked.remedy


def test_a_request_that_follows_the_remedy_still_takes_every_batch(artifacts: Artifacts) -> None:
    """A request that declares one dim keeps the example's size in all others, so the remedy names them all."""
    [only] = artifacts(submitted("Unscriptable", dynamic={}))
    [baked] = [one for one in only.check.findings if one.kind == "baked-size"]
    members = json.loads(re.findall(r"send (\{.*\}) as well", baked.remedy or "")[0])

    made = artifacts(submitted("Unscriptable", **members))

    assert [one.bucket for one in made] == [{"length": 4}, {"length": 8}]
    for one in made:
        size = one.bucket["length"]
        method = one.contract.methods["forward"]
        assert [spec.shape for spec in method.inputs] == [("batch", size), ("batch", size)]
        assert any(region.contains({"batch": 3}) for region in method.regions)


def test_the_symbol_of_the_buckets_is_no_other_symbols() -> None:
    x = InputSpec(name="x", datatype=Datatype.FP32, shape=("length", 4), example=(2, 4), fixed={"1": "trace"})
    output = OutputSpec(name="output", datatype=Datatype.FP32, shape=("length",))
    leaf = TensorLeaf(tensor="x")
    method = MethodContract(
        arguments=[Argument(name="x", structure=leaf)],
        inputs=[x],
        outputs=[output],
        returns=TensorLeaf(tensor="output"),
        regions=[Region(spans={"length": [Span(low=1, high=8)]}, basis="proven")],
    )

    assert free_symbol(method) == "length2"


def test_a_size_that_the_model_refuses_is_left_out_and_said(artifacts: Artifacts) -> None:
    [only] = artifacts(submitted("Longest", buckets={"seq": [5, 8]}))

    assert only.bucket == {"seq": 5}
    [left_out] = [one for one in only.check.findings if one.kind == "bucket-left-out"]
    assert left_out.evidence == {"sizes": {"seq": 8}}
    assert "too long" in left_out.detail
    assert [(one.way, one.verdict) for one in only.attempts][-1] == ("trace, for seq 8", None)


def test_where_no_bucket_can_be_made_the_artifact_of_the_example_stays(artifacts: Artifacts) -> None:
    [only] = artifacts(submitted("Longest", buckets={"seq": [8, 9]}))

    assert only.bucket == {}
    assert [(one.way, one.kept) for one in only.attempts] == [
        ("trace", True),
        ("trace, for seq 8", False),
        ("trace, for seq 9", False),
    ]
    left_out = [one for one in only.check.findings if one.kind == "bucket-left-out"]
    assert [one.evidence for one in left_out] == [{"sizes": {"seq": 8}}, {"sizes": {"seq": 9}}]


def test_the_remedy_names_buckets_even_if_they_are_not_enough(artifacts: Artifacts) -> None:
    [only] = artifacts(submitted("AlsoBranches", accept_unsound=True))

    assert only.check.verdict is Verdict.REJECTED
    [baked] = [one for one in only.check.findings if one.kind == "baked-size"]
    assert "`buckets`" in (baked.remedy or "")


def test_the_offer_of_buckets_is_made_once(artifacts: Artifacts) -> None:
    [only] = artifacts(submitted("Unscriptable"))

    [baked] = [one for one in only.check.findings if one.kind == "baked-size"]
    assert (baked.remedy or "").count("buckets") == 1


def test_one_artifact_is_not_enough_where_it_takes_a_listed_size_with_fewer_others() -> None:
    ids = InputSpec(name="ids", datatype=Datatype.INT64, shape=("batch", "seq"), example=(2, 16))
    output = OutputSpec(name="output", datatype=Datatype.INT64, shape=("batch", "seq"))
    regions = [
        Region(spans={"batch": [Span(low=1, high=256)], "seq": [Span(low=8, high=31)]}, basis="proven"),
        Region(spans={"batch": [Span(low=2, high=2)], "seq": [Span(low=32, high=32)]}, basis="tested"),
    ]
    contract = Contract(
        methods={
            "forward": MethodContract(
                arguments=[Argument(name="ids", structure=TensorLeaf(tensor="ids"))],
                inputs=[ids],
                outputs=[output],
                returns=TensorLeaf(tensor="output"),
                regions=regions,
            )
        }
    )

    assert [takes(contract, "seq", size) for size in (8, 16, 32, 64)] == [True, True, False, False]


def test_what_is_rejected_has_no_buckets(work: Work) -> None:
    branching = spec(
        "branches_on_data",
        example_inputs=[tensor([1.0, -2.0])],
        dynamic={"x": {"0": "seq"}},
        buckets={"seq": [2, 3]},
    )
    ended = work(branching)

    assert ended.verdict is Verdict.REJECTED
    assert [one.bucket for one in ended.artifacts] == [{}]


def test_a_call_is_made_longer_and_shorter_with_its_own_values() -> None:
    call = bind(torch.nn.Bilinear(1, 1, 1), "forward", "forward", [torch.arange(3), torch.arange(8).reshape(2, 4)], {})
    dynamic = {"input1": {"0": "seq"}, "input2": {"1": "seq+1"}}

    assert {name: one.tolist() for name, one in resize_call(call, dynamic, {"seq": 5}).tensors.items()} == {
        "input1": [0, 1, 2, 0, 1],
        "input2": [[0, 1, 2, 3, 0, 1], [4, 5, 6, 7, 4, 5]],
    }
    assert resize_call(call, dynamic, {"seq": 1}).tensors["input2"].tolist() == [[0, 1], [4, 5]]
    assert resize_call(call, dynamic, {"other": 7}) is call


DECLARED_OTHERWISE = [
    ({"input3": {"0": "seq"}}, "'input3', which is not an input: forward has input1, input2"),
    ({"input1": {"4": "seq"}}, "dim 4 of 'input1', which has 1 dims"),
    (
        {"input1": {"0": "seq"}, "input2": {"0": "seq"}},
        "dim 0 of 'input2' is 2 in the example; dynamic calls it seq, which must be 3 by the other dims",
    ),
    (
        {"input1": {"0": "2*seq"}},
        "dim 0 of 'input1' is 3 in the example; dynamic calls it 2*seq, which has no solution",
    ),
]


@pytest.mark.parametrize("sizes", [{}, {"seq": 5}])
@pytest.mark.parametrize(("dynamic", "why"), DECLARED_OTHERWISE)
def test_dims_that_are_declared_as_the_example_is_not_are_refused(
    dynamic: dict[str, dict[str, str]], why: str, sizes: dict[str, int]
) -> None:
    call = bind(torch.nn.Bilinear(1, 1, 1), "forward", "forward", [torch.arange(3), torch.arange(8).reshape(2, 4)], {})

    with pytest.raises(ArgumentMismatch, match=re.escape(why)):
        resize_call(call, dynamic, sizes)


def test_a_submission_without_buckets_is_held_to_what_it_declares(work: Work) -> None:
    ended = work(submitted(dynamic={"idz": {"1": "seq"}}))

    assert ended.state is State.FAILED
    assert ended.failure is not None
    assert ended.failure.slug == "argument-mismatch"
    assert "'idz', which is not an input: forward has ids, mask" in ended.failure.detail
    assert "`dynamic`" in str(ended.failure.facts["remedy"])
