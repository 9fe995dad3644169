"""What a contract lets in."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tracehouse.contract.contract import Batch, Contract, MethodClaim, MethodContract
from tracehouse.contract.input_spec import InputSpec, ValueRange
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.contract.structure import (
    Argument,
    BakedLeaf,
    DictNode,
    FixedLeaf,
    ListNode,
    Structure,
    TensorLeaf,
    TupleNode,
    find_baked_difference,
    same_arguments,
)
from tracehouse.errors import (
    ContractViolation,
    DatatypeMismatch,
    MethodNotFound,
    MissingInput,
    ShapeMismatch,
    UnexpectedInput,
)
from tracehouse.tensors.tensor import Datatype, Tensor, TensorSpec, array_bytes

X = InputSpec(name="x", datatype=Datatype.FP32, shape=(1, 2))
MASK = InputSpec(name="mask", datatype=Datatype.BOOL, shape=(2,))
METHOD = MethodContract(
    arguments=[Argument(name=spec.name, structure=TensorLeaf(tensor=spec.name)) for spec in (X, MASK)],
    inputs=[X, MASK],
    outputs=[OutputSpec(name="output", datatype=Datatype.FP32, shape=(1,))],
    returns=TensorLeaf(tensor="output"),
)


def tensor(spec: InputSpec, **changes: object) -> Tensor:
    """With zeros in it."""
    fields = {"name": spec.name, "datatype": spec.datatype, "shape": spec.example} | changes
    as_spec = TensorSpec.model_validate(fields)
    return Tensor(as_spec.name, as_spec.datatype, as_spec.shape, bytes(as_spec.byte_size))


def test_inputs_come_back_in_the_artifacts_order() -> None:
    assert [t.name for t in METHOD.accept([tensor(MASK), tensor(X)]).tensors] == ["x", "mask"]


def test_an_input_may_have_each_of_its_datatypes_and_stays_as_it_was_sent() -> None:
    ids = InputSpec(name="x", datatype=Datatype.INT64, shape=(2,), datatypes=[Datatype.INT64, Datatype.INT32])
    method = METHOD.model_copy(update={"inputs": [ids, MASK]})
    [accepted, _] = method.accept([tensor(ids, datatype=Datatype.INT32), tensor(MASK)]).tensors

    assert accepted.datatype is Datatype.INT32
    assert method.takes([tensor(ids, datatype=Datatype.INT32).spec, tensor(MASK).spec])
    with pytest.raises(DatatypeMismatch) as refused:
        method.accept([tensor(ids, datatype=Datatype.INT16), tensor(MASK)])
    assert "not INT64 or INT32" in refused.value.detail


FOLLOWING = MethodClaim(shapes={}, datatypes={"x": [Datatype.FP32, Datatype.BF16]}, datatype_of={"output": "x"})


def test_an_output_has_the_datatype_with_which_the_input_is_sent_that_it_follows() -> None:
    method = METHOD.with_claim(FOLLOWING)

    assert method.output_datatypes([tensor(X, datatype=Datatype.BF16), tensor(MASK)]) == {"output": "BF16"}
    assert method.output_datatypes([tensor(X), tensor(MASK)]) == {"output": "FP32"}
    assert METHOD.output_datatypes([tensor(X), tensor(MASK)]) == {"output": "FP32"}
    assert MethodContract.model_validate_json(method.model_dump_json()) == method


@pytest.mark.parametrize(
    "claim",
    [
        {"datatypes": {}},  # x has one datatype
        {"datatype_of": {"output": "mask"}},
        {"datatype_of": {"output": "y"}},
        {"datatype_of": {"other": "x"}},
    ],
)
def test_an_output_follows_only_an_input_that_may_have_several_datatypes(claim: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"datatype_of|no output 'other'"):
        METHOD.with_claim(FOLLOWING.model_copy(update=claim))


@pytest.mark.parametrize("datatypes", [["INT32", "INT64"], ["INT64", "FP32"], ["INT64", "BOOL"]])
def test_datatypes_begin_with_the_examples_and_are_of_its_kind(datatypes: list[str]) -> None:
    with pytest.raises(ValidationError):
        InputSpec.model_validate({"name": "x", "datatype": "INT64", "shape": [2], "datatypes": datatypes})


def test_a_missing_input_is_named() -> None:
    with pytest.raises(MissingInput) as refused:
        METHOD.accept([tensor(X)])
    assert refused.value.facts["input"] == "mask"


def test_an_unknown_input_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(UnexpectedInput) as refused:
        METHOD.accept([tensor(X), tensor(MASK), tensor(X, name="y")])
    assert refused.value.facts == {"input": "y", "inputs": ["mask", "x"]}


def test_another_datatype_is_refused() -> None:
    with pytest.raises(DatatypeMismatch) as refused:
        METHOD.accept([tensor(X, datatype=Datatype.FP64), tensor(MASK)])
    assert (refused.value.facts["expected"], refused.value.facts["actual"]) == ("FP32", "FP64")


def test_a_size_that_was_never_tried_is_refused() -> None:
    with pytest.raises(ShapeMismatch) as refused:
        METHOD.accept([tensor(X, shape=(2, 2)), tensor(MASK)])
    assert (refused.value.facts["expected"], refused.value.facts["actual"]) == ([1, 2], [2, 2])


def test_an_unknown_method_is_answered_with_those_that_exist() -> None:
    with pytest.raises(MethodNotFound) as refused:
        Contract(methods={"forward": METHOD}).method("backward")
    assert refused.value.facts["methods"] == ["forward"]


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": [Argument(name="x", structure=TensorLeaf(tensor="y")), METHOD.arguments[1]]},
        {"arguments": METHOD.arguments[:1]},
        {"arguments": [METHOD.arguments[0], METHOD.arguments[0].model_copy(update={"name": "again"})]},
        {"arguments": [METHOD.arguments[0], Argument(name="x", structure=TensorLeaf(tensor="mask"))]},
        {"inputs": [X, X]},
        {"inputs": [X, MASK, MASK]},
        {"outputs": []},
        {"returns": TupleNode(tuple=[METHOD.returns, METHOD.returns])},
        {"returns": DictNode(mapping={"a": ListNode(list=[TensorLeaf(tensor="other")])})},
    ],
)
def test_a_contract_whose_structure_holds_other_tensors_is_none(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        MethodContract(**{**dict(METHOD), **changes})  # type: ignore[arg-type]


def argument(structure: Structure) -> list[Argument]:
    return [Argument(name="x", structure=structure)]


TENSORS = [TensorLeaf(tensor="x.0"), TensorLeaf(tensor="x.1")]


@pytest.mark.parametrize(
    ("example", "call", "found"),
    [
        (BakedLeaf(baked=1), BakedLeaf(baked=1), None),
        (BakedLeaf(baked=1), BakedLeaf(baked=2), ("x", "1", "2")),
        (BakedLeaf(baked=None), TensorLeaf(tensor="x"), ("x", "None", "a tensor")),
        (TensorLeaf(tensor="x"), BakedLeaf(baked=None), ("x", "a tensor", "None")),
        (DictNode(mapping={"a": BakedLeaf(baked=1)}), DictNode(mapping={}), ("x.a", "1", "nothing")),
        (ListNode(list=TENSORS), ListNode(list=TENSORS[:1]), None),
        (FixedLeaf(fixed=1), FixedLeaf(fixed=2), None),
    ],
)
def test_a_call_that_gives_another_value_than_the_one_baked_in_is_told(
    example: Structure, call: Structure, found: tuple[str, str, str] | None
) -> None:
    """Of tensors the artifact is asked, and of what it takes as an argument too."""
    assert find_baked_difference(argument(example), argument(call)) == found


EACH_ANOTHER_VALUE = [
    *[0, 1, 2, False, True, 0.0, -0.0, 1.0, 1.5, None, "", "1", [], [1], [1.0], [True], [1, 1]],
    *[{}, {"a": 1}, {"a": True}, {"b": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}],
]


@pytest.mark.parametrize("leaf", [BakedLeaf, FixedLeaf])
def test_values_that_a_model_can_tell_apart_are_not_the_same(leaf: type[BakedLeaf] | type[FixedLeaf]) -> None:
    (member,) = leaf.model_fields
    each = [argument(leaf(**{member: value})) for value in EACH_ANOTHER_VALUE]  # type: ignore[arg-type]

    assert all(same_arguments(one, one) for one in each)
    assert not any(same_arguments(one, other) for one, other in permutations(each, 2))


def test_a_dict_in_another_order_is_not_the_same() -> None:
    first, second = TENSORS
    as_tried = argument(DictNode(mapping={"b": first, "a": second}))

    assert same_arguments(as_tried, argument(DictNode(mapping={"b": first, "a": second})))
    assert not same_arguments(as_tried, argument(DictNode(mapping={"a": second, "b": first})))


# forward(ids batch×seq, mask batch×seq, state 2×batch×16, past kept×16) → batch×(kept+seq)×16: batch 1 to 4 is proven
# with seq 1 to 8, and was tried with seq 32; batch 1 to 64 was tried with seq 1; kept goes with all of that.
IDS = TensorSpec(name="ids", datatype=Datatype.INT64, shape=(2, 3))
BITS = TensorSpec(name="mask", datatype=Datatype.BOOL, shape=(2, 3))
STATE = TensorSpec(name="state", datatype=Datatype.FP32, shape=(2, 2, 16))
PAST = TensorSpec(name="past", datatype=Datatype.FP32, shape=(4, 16))
OUTPUT = TensorSpec(name="output", datatype=Datatype.FP32, shape=(2, 7, 16))
OBSERVED = MethodContract(
    arguments=[Argument(name=spec.name, structure=TensorLeaf(tensor=spec.name)) for spec in (IDS, BITS, STATE, PAST)],
    inputs=[InputSpec.from_example(spec) for spec in (IDS, BITS, STATE, PAST)],
    outputs=[OutputSpec.from_example(OUTPUT)],
    returns=TensorLeaf(tensor="output"),
)


def spans(*ends: tuple[int, int]) -> list[Span]:
    return [Span(low=low, high=high) for low, high in ends]


REGIONS = [
    Region(spans={"batch": spans((1, 4)), "seq": spans((1, 8)), "kept": spans((0, 9))}, basis="proven"),
    Region(spans={"batch": spans((1, 4)), "seq": spans((32, 32)), "kept": spans((0, 9))}, basis="tested"),
    Region(spans={"batch": spans((1, 64)), "seq": spans((1, 1)), "kept": spans((0, 9))}, basis="tested"),
]
CLAIM = MethodClaim(
    shapes={"ids": ("batch", "seq"), "mask": ("batch", "seq"), "state": (2, "batch", 16), "past": ("kept", 16)},
    fixed={"state": {"0": "model", "2": "trace"}},
    values={"ids": ValueRange(low=0, high=29, basis="tested")},
    regions=REGIONS,
    wrong=[{"batch": 8, "seq": 8, "kept": 4}],
)
SIZED = OBSERVED.with_claim(CLAIM)


def sent(batch: int = 2, seq: int = 3, kept: int = 4, **changes: tuple[int, ...]) -> list[Tensor]:
    """Inputs of these sizes, those that are named in other shapes."""
    shapes = {"ids": (batch, seq), "mask": (batch, seq), "state": (2, batch, 16), "past": (kept, 16)} | changes
    return [tensor(spec, shape=shapes[spec.name]) for spec in SIZED.inputs]


def refusal(tensors: list[Tensor], method: MethodContract = SIZED, *, is_open: bool = False) -> ContractViolation:
    with pytest.raises(ContractViolation) as refused:
        method.accept(tensors, is_open=is_open)
    return refused.value


@pytest.mark.parametrize(("batch", "seq", "kept"), [(2, 3, 4), (1, 1, 0), (4, 8, 9), (3, 32, 1), (64, 1, 5)], ids=str)
def test_sizes_in_any_region_are_taken(batch: int, seq: int, kept: int) -> None:
    accepted = SIZED.accept(sent(batch, seq, kept))

    assert accepted.tensors[0].shape == (batch, seq)
    assert accepted.warnings == []
    assert SIZED.takes([one.spec for one in sent(batch, seq, kept)])


def test_a_refused_size_comes_with_the_sizes_that_fit_the_others() -> None:
    """Batch 3 goes with seq 1 to 8 and 32; that it was tried with 1 says nothing new."""
    facts = refusal(sent(batch=3, seq=9)).facts

    assert (facts["symbol"], facts["size"]) == ("seq", 9)
    assert facts["sizes"] == {"batch": 3, "seq": 9, "kept": 4}
    assert facts["dims"] == [{"input": "ids", "dim": 1, "size": 9}, {"input": "mask", "dim": 1, "size": 9}]
    assert [(one["low"], one["high"], one["basis"]) for one in facts["allowed"]] == [
        (1, 8, "proven"),
        (32, 32, "tested"),
    ]
    assert '"seq": {"low": 1, "high": 32}' in facts["remedy"]
    assert "If the model takes seq 9" in facts["remedy"]


def test_a_size_outside_is_said_in_words() -> None:
    error = refusal(sent(kept=10))

    assert error.slug() == "size-out-of-range"
    assert error.detail.startswith("kept is 10 (dim 0 of input 'past'); with batch 2, seq 3 it may be 0 to 9 (proven)")
    assert error.facts["basis"] == "proven"


def test_sizes_that_are_wrong_are_not_advised() -> None:
    error = refusal(sent(batch=8, seq=8, kept=4))

    assert error.detail.startswith("the artifact is wrong for batch 8, seq 8, kept 4")
    assert error.facts["remedy"].startswith("Send other sizes: the contract's `regions` say which are right.")


def test_sizes_that_follow_one_another_are_told_as_one_span() -> None:
    regions = [Region(spans={"n": spans((size, size))}, basis="tested") for size in (3, 2, 1, 5)]
    method = one_input(("n",), (3,), regions)

    allowed = refusal([tensor(method.inputs[0], shape=(4,))], method).facts["allowed"]

    assert [(one["low"], one["high"]) for one in allowed] == [(1, 3), (5, 5)]


def test_several_sizes_outside_are_told_one_that_nothing_goes_with() -> None:
    assert refusal(sent(batch=100, seq=100)).facts["symbol"] == "batch"


def test_sizes_that_are_each_taken_and_not_together_are_told_those_that_go_together() -> None:
    regions = [
        Region(spans={"a": spans((1, 1)), "b": spans((1, 1)), "c": spans((1, 1))}, basis="tested"),
        Region(spans={"a": spans((2, 2)), "b": spans((2, 2)), "c": spans((2, 2))}, basis="tested"),
        Region(spans={"a": spans((3, 3)), "b": spans((3, 3)), "c": spans((3, 3))}, basis="tested"),
    ]
    method = one_input(("a", "b", "c"), (1, 1, 1), regions)

    error = refusal([tensor(method.inputs[0], shape=(1, 2, 3))], method)

    assert error.facts["sizes"] == {"a": 1, "b": 2, "c": 3}
    assert "a 1, b 1, c 1 (tested); or a 2, b 2, c 2 (tested)" in error.detail


def test_dims_of_one_symbol_that_disagree_are_both_named() -> None:
    error = refusal(sent(mask=(2, 5)))

    assert error.slug() == "sizes-disagree"
    assert error.detail == (
        "dim 1 of input 'mask' is 5, and must be 3: it is seq, and seq is 3 by dim 1 of input 'ids'"
    )
    assert (error.facts["input"], error.facts["dim"], error.facts["expected"]) == ("mask", 1, 3)
    assert error.facts["others"] == [{"input": "ids", "dim": 1, "size": 3}]


@pytest.mark.parametrize(
    ("changes", "dim", "reason", "known", "remedy"),
    [
        ({"state": (3, 2, 16)}, 0, "model", "tested", "the model takes no other"),
        ({"state": (2, 2, 17)}, 2, "trace", "tested", "buckets"),
        ({"past": (4, 17)}, 1, "untried", "observed", "check_inputs"),
    ],
)
def test_a_fixed_dim_tells_why_it_is_fixed(
    changes: dict[str, tuple[int, ...]], dim: int, reason: str, known: str, remedy: str
) -> None:
    error = refusal(sent(**changes))

    assert error.slug() == "shape-mismatch"
    assert (error.facts["dim"], error.facts["reason"], error.facts["basis"]) == (dim, reason, known)
    assert remedy in error.facts["remedy"]
    assert error.facts["allowed"] == [{"low": 16 if dim else 2, "high": 16 if dim else 2, "step": 1, "basis": known}]


def test_another_rank_is_refused() -> None:
    assert refusal(sent(ids=(3,))).facts["expected"] == ["batch", "seq"]


@pytest.mark.parametrize(("ids", "place", "value"), [([0, 30, 1, 2, 3, 4], [0, 1], 30), ([0] * 5 + [-1], [1, 2], -1)])
def test_a_value_outside_its_range_is_told_with_its_place(ids: list[int], place: list[int], value: int) -> None:
    given = sent()
    given[0] = replace(given[0], data=array_bytes(Datatype.INT64, np.array(ids)))

    error = refusal(given)

    assert error.slug() == "value-out-of-range"
    assert (error.facts["place"], error.facts["value"]) == (place, value)
    assert (error.facts["allowed"], error.facts["basis"]) == ({"low": 0, "high": 29}, "tested")


@pytest.mark.parametrize(("low", "high", "taken"), [(0, None, True), (None, 0, True), (1, None, False)])
def test_a_range_may_have_one_end(low: int | None, high: int | None, taken: bool) -> None:
    ids = SIZED.inputs[0].model_copy(update={"values": ValueRange(low=low, high=high, basis="tested")})
    method = SIZED.model_copy(update={"inputs": [ids, *SIZED.inputs[1:]]})

    if taken:
        assert method.accept(sent()).tensors
        return
    assert refusal(sent(), method).slug() == "value-out-of-range"


def test_no_values_lie_in_every_range() -> None:
    regions = [Region(spans={"n": spans((0, 2))}, basis="tested")]
    method = one_input(("n",), (2,), regions, values={"x": ValueRange(low=1, basis="tested")}, datatype=Datatype.INT64)

    assert method.accept([tensor(method.inputs[0], shape=(0,))]).tensors


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({"seq": 9}, "seq is 9"),
        ({"past": (4, 17)}, "dim 1 must be 16, because no other size was tried there"),
        ({}, None),
    ],
)
def test_an_open_contract_lets_through_what_was_never_tried_and_says_so(changes: Any, warned: str | None) -> None:
    accepted = SIZED.accept(sent(**changes), is_open=True)

    assert [warned in one for one in accepted.warnings] == [True] if warned else accepted.warnings == []


@pytest.mark.parametrize(
    ("changes", "slug"),
    [
        ({"ids": (6,)}, "shape-mismatch"),
        ({"state": (3, 2, 16)}, "shape-mismatch"),
        ({"state": (2, 2, 17)}, "shape-mismatch"),
        ({"seq": 9, "state": (2, 2, 17)}, "shape-mismatch"),
        ({"mask": (2, 5)}, "sizes-disagree"),
        ({"batch": 8, "seq": 8}, "size-out-of-range"),
    ],
)
def test_an_open_contract_refuses_what_is_known_to_be_wrong_or_fits_nothing(changes: Any, slug: str) -> None:
    """With batch 8 and seq 8 it was seen to answer otherwise than the model."""
    assert refusal(sent(**changes), is_open=True).slug() == slug


def test_an_open_contract_refuses_a_value_that_the_model_refuses() -> None:
    given = sent(seq=9)
    given[0] = replace(given[0], data=array_bytes(Datatype.INT64, np.full(18, 30)))

    assert refusal(given, is_open=True).slug() == "value-out-of-range"


def test_sizes_are_told_of_any_shapes_that_fit_inside_or_not() -> None:
    specs = [one.spec for one in sent(batch=7, seq=100)]

    assert SIZED.sizes_of(specs[::-1]) == {"batch": 7, "seq": 100, "kept": 4}
    assert not SIZED.takes(specs)


@pytest.mark.parametrize(
    "changes",
    [
        {"ids": (2, 5)},
        {"ids": (6,)},
        {"state": (3, 2, 16)},
    ],
)
def test_shapes_that_do_not_fit_have_no_sizes(changes: dict[str, tuple[int, ...]]) -> None:
    specs = [one.spec for one in sent(**changes)]

    assert SIZED.sizes_of(specs) is None
    assert not SIZED.takes(specs)


def test_other_inputs_have_no_sizes() -> None:
    specs = [one.spec for one in sent()]
    as_floats = specs[0].model_copy(update={"datatype": Datatype.FP32})

    assert SIZED.sizes_of(specs[1:]) is None
    assert SIZED.sizes_of([as_floats, *specs[1:]]) is None


def test_a_contract_of_no_symbols_takes_the_example_alone() -> None:
    specs = [IDS, BITS, STATE, PAST]

    assert OBSERVED.sizes_of(specs) == {}
    assert OBSERVED.takes(specs)
    assert not OBSERVED.takes([IDS.model_copy(update={"shape": (2, 4)}), *specs[1:]])


def test_the_examples_own_sizes_are_always_inside() -> None:
    claimed = OBSERVED.with_claim(CLAIM.model_copy(update={"regions": REGIONS[1:]}))

    assert claimed.accept(sent()).warnings == []
    assert claimed.regions[-1].basis == "observed"
    assert claimed.regions[-1].contains({"batch": 2, "seq": 3, "kept": 4})
    assert not claimed.regions[-1].contains({"batch": 2, "seq": 4, "kept": 4})


def test_the_examples_own_sizes_are_inside_whatever_else_there_is() -> None:
    tried = [Region(spans=REGIONS[0].spans | {"seq": spans((size, size))}, basis="tested") for size in range(10, 74)]
    claimed = OBSERVED.with_claim(CLAIM.model_copy(update={"regions": tried}))

    assert claimed.takes([one.spec for one in sent()])
    assert claimed.takes([one.spec for one in sent(seq=10)])


def test_a_dim_without_a_reason_was_never_tried() -> None:
    assert SIZED.inputs[2].fixed == {"0": "model", "2": "trace"}
    assert SIZED.inputs[3].fixed == {"1": "untried"}


@pytest.mark.parametrize(
    "changes",
    [
        {"shapes": CLAIM.shapes | {"other": ("seq",)}},
        {"values": {"other": ValueRange(low=0, basis="tested")}},
        {"values": {"state": ValueRange(low=0, basis="tested")}},
        {"fixed": {"other": {"0": "model"}}},
        {"fixed": {"ids": {"0": "model"}}},
        {"fixed": {"state": {"7": "model"}}},
        {"shapes": CLAIM.shapes | {"ids": ("seq",)}},
        {"shapes": CLAIM.shapes | {"state": (2, "batch", 17)}},
        {"shapes": CLAIM.shapes | {"past": ("kept", "more")}},
        {"shapes": CLAIM.shapes | {"past": (4, 16)}},
        {"shapes": CLAIM.shapes | {"past": ("kept+more", 16)}},
        {"shapes": CLAIM.shapes | {"mask": ("seq", "batch")}},
        {"shapes": CLAIM.shapes | {"past": ("3*kept", 16)}},
        {"wrong": [{"batch": 1, "seq": 1, "kept": 1}]},
        {"wrong": [{"batch": 8}]},
        {"batch": Batch(symbol="batch", up_to=4, inputs={"ids": 1}, outputs={"output": 0})},
        {"batch": Batch(symbol="batch", up_to=4, inputs={"ids": 0}, outputs={"output": 3})},
        {"batch": Batch(symbol="rows", up_to=4, inputs={"ids": 0}, outputs={"output": 0})},
    ],
    ids=str,
)
def test_a_claim_that_is_not_about_these_inputs_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        OBSERVED.with_claim(CLAIM.model_copy(update=changes))


def test_sizes_known_to_be_wrong_are_left_out_where_they_are_the_examples() -> None:
    """A rejected artifact is served all the same where its submitter wants that."""
    claim = CLAIM.model_copy(update={"wrong": [{"batch": 2, "seq": 3, "kept": 4}, *CLAIM.wrong]})

    assert OBSERVED.with_claim(claim).wrong == CLAIM.wrong


@pytest.mark.parametrize(
    "changes",
    [
        {"regions": []},
        {"regions": [*REGIONS, Region(spans={"batch": spans((1, 4)), "seq": spans((1, 8))}, basis="proven")]},
        {"regions": REGIONS[1:]},
        {"inputs": SIZED.inputs[:3], "arguments": SIZED.arguments[:3]},
        {"wrong": [{"batch": 1, "seq": 1, "kept": 1}]},
        {"batch": Batch(symbol="seq", up_to=4, inputs={"ids": 0}, outputs={"output": 0})},
    ],
    ids=["none", "a symbol less", "without the example", "an input less", "right and wrong", "other rows"],
)
def test_a_contract_whose_sizes_make_no_sense_is_none(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MethodContract(**{**dict(SIZED), **changes})


@pytest.mark.parametrize(
    "changes", [{"shape": (2, 4)}, {"shape": ("batch",)}, {"fixed": {"0": "model"}}, {"example": (2, 4)}], ids=str
)
def test_an_input_that_is_not_as_its_example_is_none(changes: dict[str, Any]) -> None:
    ids = {"name": "ids", "datatype": Datatype.INT64, "shape": ("batch", 3), "example": (2, 3)}

    assert InputSpec(**ids)  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        InputSpec(**{**ids, **changes})  # type: ignore[arg-type]


def test_a_batch_that_holds_is_kept() -> None:
    batch = Batch(symbol="batch", up_to=4, inputs={"ids": 0, "mask": 0, "state": 1}, outputs={"output": 0})

    assert OBSERVED.with_claim(CLAIM.model_copy(update={"batch": batch})).batch == batch


def answer(*shape: int) -> list[TensorSpec]:
    return [OUTPUT.model_copy(update={"shape": shape})]


def test_outputs_are_told_from_answers_to_several_sizes() -> None:
    answers = [
        ({"batch": 3, "seq": 3, "kept": 4}, answer(3, 7, 16)),
        ({"batch": 3, "seq": 8, "kept": 4}, answer(3, 12, 16)),
        ({"batch": 3, "seq": 8, "kept": 0}, answer(3, 8, 16)),
    ]

    (output,) = OBSERVED.with_claim(CLAIM, answers).outputs

    assert set(str(output.shape[1]).split("+")) == {"kept", "seq"}
    assert (output.shape[0], output.shape[2]) == ("batch", 16)


def test_what_no_answers_tell_of_an_output_is_left_open() -> None:
    assert SIZED.outputs[0].shape == (-1, -1, -1)
    one_more = [({"batch": 3, "seq": 8, "kept": 0}, answer(3, 8, 16))]
    assert OBSERVED.with_claim(CLAIM, one_more).outputs[0].shape == ("batch", -1, 16)


def test_a_symbol_of_one_size_leaves_nothing_of_an_output_open() -> None:
    pinned = [Region(spans={"batch": spans((1, 4)), "seq": spans((3, 3)), "kept": spans((4, 4))}, basis="tested")]
    answers = [({"batch": 3, "seq": 3, "kept": 4}, answer(3, 7, 16))]

    assert OBSERVED.with_claim(CLAIM.model_copy(update={"regions": pinned}), answers).outputs[0].shape == (
        "batch",
        7,
        16,
    )


def test_the_outputs_of_a_contract_without_symbols_are_the_examples() -> None:
    assert OBSERVED.with_claim(MethodClaim(shapes={})).outputs == OBSERVED.outputs


def test_an_output_whose_rank_varies_is_left_open() -> None:
    answers = [({"batch": 1, "seq": 2, "kept": 3}, answer(5, 16))]
    assert OBSERVED.with_claim(CLAIM, answers).outputs[0].shape == (-1, -1, -1)


def test_a_contract_comes_back_from_json_as_it_was() -> None:
    assert MethodContract.model_validate_json(SIZED.model_dump_json()) == SIZED


def test_a_contract_of_an_earlier_release_says_what_it_said() -> None:
    """Its inputs had a datatype and a shape, and all was known from the example."""
    earlier = Contract(methods={"forward": METHOD}).model_dump(mode="json", exclude={"open"})
    for spec in earlier["methods"]["forward"]["inputs"]:
        for name in ("example", "fixed", "values"):
            del spec[name]

    read = Contract.model_validate({**earlier, "known": "observed"})

    assert read == Contract(methods={"forward": METHOD})


def one_input(
    shape: tuple[int | str, ...],
    example: tuple[int, ...],
    regions: list[Region],
    values: dict[str, ValueRange] | None = None,
    datatype: Datatype = Datatype.FP32,
) -> MethodContract:
    spec = TensorSpec(name="x", datatype=datatype, shape=example)
    observed = MethodContract(
        arguments=[Argument(name="x", structure=TensorLeaf(tensor="x"))],
        inputs=[InputSpec.from_example(spec)],
        outputs=[OutputSpec(name="output", datatype=Datatype.FP32, shape=())],
        returns=TensorLeaf(tensor="output"),
    )
    return observed.with_claim(MethodClaim(shapes={"x": shape}, regions=regions, values=values or {}))
