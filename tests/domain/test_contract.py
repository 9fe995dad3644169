"""What a contract lets in."""

from itertools import permutations

import pytest
from pydantic import ValidationError

from service.domain.contract import (
    Argument,
    BakedLeaf,
    Contract,
    DictNode,
    FixedLeaf,
    ListNode,
    MethodContract,
    Structure,
    TensorLeaf,
    TupleNode,
    baked_otherwise,
    same_arguments,
)
from service.domain.errors import DatatypeMismatch, MethodNotFound, MissingInput, ShapeMismatch, UnexpectedInput
from service.domain.tensor import Datatype, Tensor, TensorSpec

X = TensorSpec(name="x", datatype=Datatype.FP32, shape=(1, 2))
MASK = TensorSpec(name="mask", datatype=Datatype.BOOL, shape=(2,))
METHOD = MethodContract(
    arguments=[Argument(name=spec.name, structure=TensorLeaf(tensor=spec.name)) for spec in (X, MASK)],
    inputs=[X, MASK],
    outputs=[TensorSpec(name="output", datatype=Datatype.FP32, shape=(1,))],
    returns=TensorLeaf(tensor="output"),
)


def tensor(spec: TensorSpec, **changes: object) -> Tensor:
    fields = {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape, "data": bytes(spec.byte_size)}
    return Tensor(**(fields | changes))  # type: ignore[arg-type]


def test_inputs_come_back_in_the_artifacts_order() -> None:
    assert [t.name for t in METHOD.accept([tensor(MASK), tensor(X)])] == ["x", "mask"]


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
    assert baked_otherwise(argument(example), argument(call)) == found


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
