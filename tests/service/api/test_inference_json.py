"""The forms that an inference body may have, and what each mistake in one is answered with."""

from collections.abc import Sequence
from typing import Any

import pytest

from service.api import inference_json
from service.api.inference_json import Expected
from service.domain.errors import MalformedJson
from tracehouse.contract import buckets
from tracehouse.contract.buckets import BucketContract
from tracehouse.contract.contract import AcceptedInputs, MethodContract, OtherRanks
from tracehouse.contract.input_spec import InputSpec
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.contract.structure import Argument, BakedLeaf, DictNode, FixedLeaf, ListNode, TensorLeaf, TupleNode
from tracehouse.errors import (
    BakedArgument,
    InvalidRequest,
    KeyOrderMismatch,
    NoBucket,
    ServiceError,
    ShapeMismatch,
    SizeOutOfRange,
)
from tracehouse.tensors.tensor import Datatype, unpack


def spec(name: str, datatype: Datatype, *shape: int) -> InputSpec:
    return InputSpec(name=name, datatype=datatype, shape=shape, example=shape)


def output(name: str, *shape: int) -> OutputSpec:
    return OutputSpec(name=name, datatype=Datatype.FP32, shape=shape)


# def forward(self, x, pair, mode, batch, scale): with x 2×2, pair (ids, [mask]), batch {"größe": …, "kept": "as is"}
METHOD = MethodContract(
    arguments=[
        Argument(name="x", structure=TensorLeaf(tensor="x")),
        Argument(
            name="pair",
            structure=TupleNode(tuple=[TensorLeaf(tensor="pair.0"), ListNode(list=[TensorLeaf(tensor="pair.1.0")])]),
        ),
        Argument(name="mode", structure=BakedLeaf(baked="fast")),
        Argument(
            name="batch",
            structure=DictNode(mapping={"größe": TensorLeaf(tensor="batch.größe"), "kept": BakedLeaf(baked="as is")}),
        ),
        Argument(name="scale", structure=BakedLeaf(baked=2.0)),
    ],
    inputs=[
        spec("x", Datatype.FP32, 2, 2),
        spec("pair.0", Datatype.INT64, 3),
        spec("pair.1.0", Datatype.BOOL, 1),
        spec("batch.größe", Datatype.FP64),
    ],
    outputs=[output("output.0", 2), output("output.1", 2)],
    returns=TupleNode(tuple=[TensorLeaf(tensor="output.0"), TensorLeaf(tensor="output.1")]),
)

X = [[1.0, 2.0], [3.0, 4.0]]
PAIR = [[5, 6, 7], [[True]]]
CALL: dict[str, Any] = {"args": [X, PAIR], "kwargs": {"batch": {"größe": 8.5}}}
PROTOCOL = [
    {"name": "batch.größe", "datatype": "FP64", "shape": [], "data": [8.5]},
    {"name": "pair.1.0", "datatype": "BOOL", "shape": [1], "data": [True]},
    {"name": "pair.0", "datatype": "INT64", "shape": [3], "data": [5, 6, 7]},
    {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4], "parameters": {"anything": 1}},
]
VALUES = {"x": [1.0, 2.0, 3.0, 4.0], "pair.0": [5, 6, 7], "pair.1.0": [True], "batch.größe": [8.5]}


def accept(body: Any, method: MethodContract, *, is_open: bool = False) -> AcceptedInputs:
    """Read a body and accept its tensors, as the inference routes do for a model without buckets."""
    return method.accept(inference_json.read(body, Expected.of([method])).tensors, is_open=is_open)


def values(body: dict[str, Any], method: MethodContract = METHOD) -> dict[str, list[Any]]:
    return {tensor.name: unpack(tensor.datatype, tensor.data) for tensor in accept(body, method).tensors}


@pytest.mark.parametrize(
    "body",
    [
        {"inputs": PROTOCOL},
        {"inputs": PROTOCOL[::-1], "id": None, "parameters": {"priority": 1}},
        {"inputs": {"x": X, "pair.0": [5, 6, 7], "pair.1.0": [True], "batch.größe": 8.5}},
        {"inputs": {"x": X, "pair": PAIR, "batch": {"größe": 8.5}}},
        {"inputs": {"x": {"data": [1, 2, 3, 4]}, "pair": {"tuple": PAIR}, "batch": {"größe": {"data": 8.5}}}},
        CALL,
        {"args": [X, {"tuple": PAIR}, "fast", {"größe": 8.5, "kept": "as is"}, 2]},
        {"kwargs": {"batch": {"größe": 8.5}, "pair": PAIR, "x": {"datatype": "FP32", "shape": [2, 2], "data": X}}},
    ],
)
def test_every_form_says_the_same(body: dict[str, Any]) -> None:
    assert values(body) == VALUES
    assert list(values(body)) == list(VALUES), "in the contract's order"


def test_the_reply_has_all_outputs_or_those_asked_for_once_each() -> None:
    assert inference_json.read(CALL, Expected.of([METHOD])).outputs == ["output.0", "output.1"]
    asked = {"outputs": [{"name": "output.1"}, {"name": "output.1"}]}
    assert inference_json.read(CALL | asked, Expected.of([METHOD])).outputs == ["output.1"]


def test_the_id_comes_through() -> None:
    assert inference_json.read(CALL | {"id": "älteste"}, Expected.of([METHOD])).id == "älteste"


def test_what_json_cannot_say_is_said_by_name() -> None:
    method = METHOD.model_copy(update={"inputs": [spec("x", Datatype.FP32, 3)], "arguments": METHOD.arguments[:1]})
    named = {"inputs": {"x": ["NaN", "Infinity", "-Infinity"]}}
    assert values(named, method) == {"x": ["NaN", "Infinity", "-Infinity"]}


@pytest.mark.parametrize(("shape", "data"), [((0,), []), ((0, 4), []), ((2, 0, 3), [[], []])])
def test_an_empty_tensor_is_written_as_far_as_lists_can_write_it(shape: tuple[int, ...], data: list[Any]) -> None:
    method = METHOD.model_copy(update={"inputs": [spec("x", Datatype.FP32, *shape)], "arguments": METHOD.arguments[:1]})
    assert values({"args": [data]}, method) == {"x": []}


def without(name: str) -> list[dict[str, Any]]:
    return [tensor for tensor in PROTOCOL if tensor["name"] != name]


def changed(name: str, **changes: Any) -> dict[str, Any]:
    return {"inputs": [tensor | (changes if tensor["name"] == name else {}) for tensor in PROTOCOL]}


MISTAKES = {
    "a list": ([], "invalid-request"),
    "nothing": ({}, "invalid-request"),
    "no known form": ({"instances": [1]}, "invalid-request"),
    "two forms": (CALL | {"inputs": PROTOCOL}, "invalid-request"),
    "inputs of a kind": ({"inputs": "x"}, "invalid-request"),
    "an input that is no object": ({"inputs": [[1.0]]}, "invalid-request"),
    "an input without name": ({"inputs": [{"data": [1]}]}, "invalid-request"),
    "an input with more to it": (changed("x", dtype="FP32"), "invalid-request"),
    "an id that is no string": (CALL | {"id": 7}, "invalid-request"),
    "parameters of a kind": (CALL | {"parameters": []}, "invalid-request"),
    "an output that is not there": (CALL | {"outputs": [{"name": "output"}]}, "invalid-request"),
    "args of a kind": ({"args": {"x": X}}, "invalid-request"),
    "kwargs of a kind": ({"kwargs": [X]}, "invalid-request"),
    "a missing input": ({"inputs": without("pair.0")}, "missing-input"),
    "a missing argument": ({"args": [X, PAIR]}, "missing-input"),
    "a missing key": ({"args": [X, PAIR], "kwargs": {"batch": {}}}, "missing-input"),
    "an unknown input": ({"inputs": [*PROTOCOL, PROTOCOL[0] | {"name": "y"}]}, "unexpected-input"),
    "an input sent twice": ({"inputs": [*PROTOCOL, PROTOCOL[0]]}, "unexpected-input"),
    "a leaf and its argument": ({"inputs": {"pair": PAIR, "pair.0": [5, 6, 7]}}, "unexpected-input"),
    "an unknown name": ({"inputs": {"z": 1}}, "unexpected-input"),
    "too many arguments": ({"args": [X, PAIR, "fast", {}, 2, 3]}, "unexpected-input"),
    "an argument in both": (CALL | {"kwargs": {"x": X}}, "unexpected-input"),
    "an unknown keyword": (CALL | {"kwargs": {"y": X}}, "unexpected-input"),
    "another datatype": (changed("x", datatype="FP64"), "datatype-mismatch"),
    "a datatype that is none": (changed("x", datatype="BYTES"), "datatype-mismatch"),
    "a datatype of a kind": (changed("x", datatype=["FP32"]), "datatype-mismatch"),
    "another shape": (changed("x", shape=[1, 4]), "shape-mismatch"),
    "another nesting": ({"inputs": {"x": [1.0, 2.0, 3.0, 4.0]}}, "shape-mismatch"),
    "ragged lists": ({"inputs": {"x": [[1.0, 2.0], [3.0]]}}, "shape-mismatch"),
    "too few values": ({"inputs": {"x": [[1.0, 2.0]]}}, "shape-mismatch"),
    "a number for a matrix": ({"inputs": {"x": 1.0}}, "shape-mismatch"),
    "a shape with a hole": (changed("x", shape=[2, None]), "invalid-tensor"),
    "a shape below zero": (changed("x", shape=[-1, 2]), "invalid-tensor"),
    "a shape of truth": (changed("x", shape=[True, 4]), "invalid-tensor"),
    "an immense shape": (changed("x", shape=[2**60]), "invalid-tensor"),
    "no data": ({"inputs": {"x": {"shape": [2, 2]}}}, "invalid-tensor"),
    "null": ({"inputs": {"x": None}}, "invalid-tensor"),
    "text": ({"inputs": {"x": "1.0"}}, "invalid-tensor"),
    "text for numbers": ({"inputs": {"x": [["1", "2"], ["3", "4"]]}}, "invalid-tensor"),
    "a fraction for an integer": ({"inputs": {"pair.0": [5, 6, 7.5]}}, "invalid-tensor"),
    "truth for an integer": ({"inputs": {"pair.0": [5, 6, True]}}, "invalid-tensor"),
    "an integer for truth": ({"inputs": {"pair.1.0": [1]}}, "invalid-tensor"),
    "beyond the datatype": (changed("x", data=[1e39, 1, 1, 1]), "invalid-tensor"),
    "a tensor with more to it": ({"inputs": {"x": {"data": X, "dtype": "FP32"}}}, "invalid-tensor"),
    "a tuple too short": ({"args": [X, [PAIR[0]]]}, "structure-mismatch"),
    "a tensor for a tuple": ({"args": [X, {"data": [1]}]}, "structure-mismatch"),
    "a tuple for a list": ({"args": [X, [PAIR[0], {"tuple": [[True]]}]]}, "structure-mismatch"),
    "a list for a dict": ({"args": [X, PAIR, "fast", [8.5]]}, "structure-mismatch"),
    "another key": (CALL | {"kwargs": {"batch": {"größe": 1, "groesse": 1}}}, "structure-mismatch"),
    "another baked value": ({"args": [X, PAIR, "slow"]}, "baked-argument"),
    "truth for a baked number": (CALL | {"kwargs": {"scale": True}}, "baked-argument"),
    "a baked value within": ({"inputs": {"batch": {"größe": 1, "kept": None}}}, "baked-argument"),
}


@pytest.mark.parametrize(("body", "slug"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named(body: Any, slug: str) -> None:
    with pytest.raises(ServiceError) as refused:
        accept(body, METHOD)
    assert refused.value.slug() == slug


def test_a_shape_mismatch_tells_what_was_expected() -> None:
    with pytest.raises(ServiceError) as refused:
        accept({"inputs": {"x": [[1.0, 2.0, 3.0]]}}, METHOD)
    facts = refused.value.facts
    assert (facts["input"], facts["expected"], facts["actual"]) == ("x", [2, 2], [1, 3])
    assert facts["basis"] == "observed"


def test_a_refusal_stays_short_however_much_was_sent() -> None:
    for body in ({"x" * 10**6: 1}, {"inputs": {"y" * 10**6: 1}}, {"args": [X, PAIR, "z" * 10**6]}):
        with pytest.raises(ServiceError) as refused:
            accept(body, METHOD)
        assert len(str(refused.value.failure())) < 2000


# def forward(self, x, sizes, mask=None): scripted, and tried with sizes [3, 4]
SCRIPTED = MethodContract(
    arguments=[
        Argument(name="x", structure=TensorLeaf(tensor="x")),
        Argument(name="sizes", structure=ListNode(list=[FixedLeaf(fixed=3), FixedLeaf(fixed=4)])),
        Argument(name="mask", structure=FixedLeaf(fixed=None)),
    ],
    inputs=[spec("x", Datatype.FP32, 2, 2)],
    outputs=[output("output", 2)],
    returns=TensorLeaf(tensor="output"),
)


@pytest.mark.parametrize("args", [[X], [X, [3, 4]], [X, [3, 4], None]])
def test_what_a_scripted_method_was_tried_with_may_be_sent_or_left_out(args: list[Any]) -> None:
    (x,) = accept({"args": args}, SCRIPTED).tensors

    assert unpack(x.datatype, x.data) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("args", "input_", "slug"),
    [
        ([X, [3, 5]], "sizes.1", "baked-argument"),
        ([X, [3]], "sizes", "structure-mismatch"),
        ([X, [3, 4], [1]], "mask", "baked-argument"),
    ],
)
def test_what_a_scripted_method_was_not_tried_with_is_refused(args: list[Any], input_: str, slug: str) -> None:
    with pytest.raises(ServiceError) as refused:
        accept({"args": args}, SCRIPTED)
    assert (refused.value.slug(), refused.value.facts["input"]) == (slug, input_)


@pytest.mark.parametrize("leaf", [BakedLeaf, FixedLeaf])
@pytest.mark.parametrize(
    ("known", "sent", "taken"),
    [
        (1.0, 1, True),
        (1.0, 1.0, True),
        (-0.0, -0.0, True),
        ([1.0, {"b": 2, "a": 3.0}], [1, {"a": 3, "b": 2}], True),
        (1.0, True, False),
        (1.5, 1, False),
        (0.0, -0.0, False),
        (-0.0, 0, False),
        (1, 1.0, False),
        (1, True, False),
        (True, 1, False),
        (True, 1.0, False),
        (0, False, False),
        (None, 0, False),
        ("1", 1, False),
        ([1, 0, 1], [True, False, True], False),
        ([1], [1.0], False),
        ([1, 2], [1], False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
    ],
)
def test_a_value_is_taken_if_it_is_the_one_that_was_tried(
    leaf: type[BakedLeaf] | type[FixedLeaf], known: Any, sent: Any, taken: bool
) -> None:
    """An integer may stand for a float, whose `.0` many drop who write JSON, and for nothing else."""
    (member,) = leaf.model_fields
    value = Argument(name="value", structure=leaf(**{member: known}))
    method = SCRIPTED.model_copy(update={"arguments": [SCRIPTED.arguments[0], value]})

    if taken:
        assert accept({"args": [X, sent]}, method).tensors
        return
    with pytest.raises(BakedArgument):
        accept({"args": [X, sent]}, method)


def test_a_dicts_members_may_be_sent_in_any_order() -> None:
    batch = DictNode(mapping={"tokens": TensorLeaf(tensor="batch.tokens"), "mask": TensorLeaf(tensor="batch.mask")})
    method = SCRIPTED.model_copy(
        update={
            "arguments": [Argument(name="batch", structure=batch)],
            "inputs": [spec("batch.tokens", Datatype.FP32, 1), spec("batch.mask", Datatype.FP32, 1)],
        }
    )
    body = {"args": [{"mask": [2], "tokens": [1]}]}

    assert list(values(body, method).items()) == [("batch.tokens", [1.0]), ("batch.mask", [2.0])]


# forward(batch, mode, **others), whose answer depends on the order of every dict
ORDERED = SCRIPTED.model_copy(
    update={
        "arguments": [
            Argument(
                name="batch",
                structure=ListNode(
                    list=[DictNode(mapping={"b": TensorLeaf(tensor="batch.0.b"), "a": TensorLeaf(tensor="batch.0.a")})]
                ),
            ),
            Argument(name="mode", structure=BakedLeaf(baked={"steps": [{"mul": 2, "add": 3}]})),
            Argument(name="u", structure=TensorLeaf(tensor="u")),
            Argument(name="v", structure=TensorLeaf(tensor="v")),
        ],
        "inputs": [spec(name, Datatype.FP32, 1) for name in ("batch.0.b", "batch.0.a", "u", "v")],
        "key_orders": {"batch.0": ["b", "a"], "mode.steps.0": ["mul", "add"], "**": ["u", "v"]},
    }
)
BATCH, MODE = [{"b": [1], "a": [2]}], {"steps": [{"mul": 2, "add": 3}]}


@pytest.mark.parametrize(
    ("body", "input_", "came", "expected"),
    [
        ({"args": [[{"a": [2], "b": [1]}], MODE], "kwargs": {"u": [3], "v": [4]}}, "batch.0", ["a", "b"], ["b", "a"]),
        ({"inputs": {"batch": [{"a": [2], "b": [1]}], "u": [3], "v": [4]}}, "batch.0", ["a", "b"], ["b", "a"]),
        (
            {"args": [BATCH, {"steps": [{"add": 3, "mul": 2}]}], "kwargs": {"u": [3], "v": [4]}},
            "mode.steps.0",
            ["add", "mul"],
            ["mul", "add"],
        ),
        ({"args": [BATCH], "kwargs": {"v": [4], "u": [3]}}, "**", ["v", "u"], ["u", "v"]),
        ({"inputs": {"v": [4], "batch": BATCH, "u": [3]}}, "**", ["v", "u"], ["u", "v"]),
    ],
)
def test_keys_in_another_order_are_refused_if_the_contract_fixes_it(
    body: dict[str, Any], input_: str, came: list[str], expected: list[str]
) -> None:
    with pytest.raises(KeyOrderMismatch) as refused:
        accept(body, ORDERED)

    assert refused.value.facts == {"input": input_, "actual": came, "expected": expected}


@pytest.mark.parametrize(
    "body",
    [
        {"args": [BATCH, MODE], "kwargs": {"u": [3], "v": [4]}},
        {"kwargs": {"u": [3], "batch": BATCH, "v": [4], "mode": MODE}},
        {"inputs": {"batch.0.a": [2], "batch.0.b": [1], "u": [3], "v": [4]}},
        {
            "inputs": [
                {"name": name, "datatype": "FP32", "shape": [1], "data": [value]}
                for name, value in {"v": 4, "batch.0.a": 2, "u": 3, "batch.0.b": 1}.items()
            ]
        },
    ],
)
def test_a_fixed_order_binds_no_other_keys_and_no_named_tensors(body: dict[str, Any]) -> None:
    assert values(body, ORDERED) == {"batch.0.b": [1.0], "batch.0.a": [2.0], "u": [3.0], "v": [4.0]}


def test_an_order_that_one_bucket_fixes_is_fixed_for_all() -> None:
    free = ORDERED.model_copy(update={"key_orders": {}})
    body = {"args": [[{"a": [2], "b": [1]}]], "kwargs": {"u": [3], "v": [4]}}

    assert len(inference_json.read(body, Expected.of([free])).tensors) == 4
    with pytest.raises(KeyOrderMismatch):
        inference_json.read(body, Expected.of([free, ORDERED]))


# forward(x batch×seq×2, ids batch×seq, bias 3) with batch and seq from 0 to 9
SYMBOLIC = MethodContract(
    arguments=[Argument(name=name, structure=TensorLeaf(tensor=name)) for name in ("x", "ids", "bias")],
    inputs=[
        InputSpec(name="x", datatype=Datatype.FP32, shape=("batch", "seq", 2), example=(1, 3, 2)),
        InputSpec(name="ids", datatype=Datatype.INT64, shape=("batch", "seq"), example=(1, 3)),
        InputSpec(name="bias", datatype=Datatype.FP32, shape=(3,), example=(3,)),
    ],
    outputs=[output("output", 2)],
    returns=TensorLeaf(tensor="output"),
    regions=[Region(spans={"batch": [Span(low=0, high=9)], "seq": [Span(low=0, high=9)]}, basis="proven")],
)
PAIRS = [[[1, 2], [3, 4]]]


def shapes(*args: Any, method: MethodContract = SYMBOLIC) -> list[tuple[int, ...]]:
    return [tensor.shape for tensor in accept({"args": list(args)}, method).tensors]


@pytest.mark.parametrize(
    ("x", "ids", "sizes"),
    [
        (PAIRS, [[1, 2]], (1, 2)),
        ([[[1, 2]], [[3, 4]], [[5, 6]]], [[1], [2], [3]], (3, 1)),
        ({"data": PAIRS}, {"data": [[1, 2]]}, (1, 2)),
        ({"data": [1, 2, 3, 4], "shape": [2, 1, 2]}, [[1], [2]], (2, 1)),
        ({"data": [1, 2, 3, 4], "shape": [2, 1, 2]}, {"shape": [2, 1], "data": [1, 2]}, (2, 1)),
        ([[], []], {"shape": [2, 0], "data": []}, (2, 0)),
        ([[], []], [[], []], (2, 0)),
        ({"data": [[], []]}, [[], []], (2, 0)),
        ({"data": [], "shape": [0, 4, 2]}, {"shape": [0, 4], "data": []}, (0, 4)),
    ],
)
def test_what_is_sent_spells_the_sizes_that_the_contract_leaves_open(x: Any, ids: Any, sizes: tuple[int, int]) -> None:
    assert shapes(x, ids, [1, 2, 3]) == [(*sizes, 2), sizes, (3,)]


@pytest.mark.parametrize(
    ("dims", "example", "data", "shape"),
    [
        (("batch", 2), (1, 2), [1, 2, 3, 4, 5, 6], (3, 2)),
        (("batch",), (1,), [1, 2, 3], (3,)),
        (("batch",), (1,), [], (0,)),
    ],
)
def test_the_count_of_flat_data_tells_one_size(
    dims: tuple[int | str, ...], example: tuple[int, ...], data: list[int], shape: tuple[int, ...]
) -> None:
    assert shapes({"data": data}, method=one_input(dims, example)) == [shape]


@pytest.mark.parametrize(
    ("args", "slug"),
    [
        # Where nothing tells a size, none is made up.
        ([[], [], [1, 2, 3]], "invalid-tensor"),
        ([{"data": []}, [[]], [1, 2, 3]], "invalid-tensor"),
        ([{"data": [1, 2, 3, 4]}, [[1, 2]], [1, 2, 3]], "invalid-tensor"),
        ([{"data": [[[1, 2], [3, 4]], [[5, 6]]]}, [[1, 2]], [1, 2, 3]], "invalid-tensor"),
        ([[[[1, 2], [3, 4]], [[5, 6]]], [[1, 2]], [1, 2, 3]], "shape-mismatch"),
        ([[[[1, 2], 3]], [[1, 2]], [1, 2, 3]], "shape-mismatch"),
        ([[[[1, 2], [3]]], [[1, 2]], [1, 2, 3]], "shape-mismatch"),
        ([[[[1, 2, 3], [4, 5, 6]]], [[1, 2]], [1, 2, 3]], "shape-mismatch"),
        ([[1, 2], [[1, 2]], [1, 2, 3]], "shape-mismatch"),
        ([[[[[1]]]], [[1, 2]], [1, 2, 3]], "shape-mismatch"),
        ([PAIRS, [[1, 2]], [1, 2, 3, 4]], "shape-mismatch"),
        ([PAIRS, [[1, 2, 3]], [1, 2, 3]], "sizes-disagree"),
        ([[PAIRS[0]] * 10, [[1, 2]] * 10, [1, 2, 3]], "size-out-of-range"),
    ],
)
def test_a_mistake_in_what_spells_sizes_is_named(args: list[Any], slug: str) -> None:
    with pytest.raises(ServiceError) as refused:
        accept({"args": args}, SYMBOLIC)
    assert refused.value.slug() == slug


def test_an_open_contract_answers_with_warnings() -> None:
    body = {"args": [[PAIRS[0]] * 10, [[1, 2]] * 10, [1, 2, 3]]}

    (warning,) = accept(body, SYMBOLIC, is_open=True).warnings

    assert "batch is 10" in warning
    assert accept({"args": [PAIRS, [[1, 2]], [1, 2, 3]]}, SYMBOLIC, is_open=True).warnings == []


def one_input(
    shape: tuple[int | str, ...], example: tuple[int, ...], fixed: dict[str, Any] | None = None
) -> MethodContract:
    x = InputSpec(name="x", datatype=Datatype.FP32, shape=shape, example=example, fixed=fixed or {})
    symbols = {dim for dim in shape if isinstance(dim, str)}
    return MethodContract(
        arguments=[Argument(name="x", structure=TensorLeaf(tensor="x"))],
        inputs=[x],
        outputs=[output("output", 2)],
        returns=TensorLeaf(tensor="output"),
        regions=[Region(spans={symbol: [Span(low=0, high=4)] for symbol in symbols}, basis="tested")]
        if symbols
        else [],
    )


def bucket(seq: int, reason: str = "trace") -> BucketContract:
    return BucketContract({"seq": seq}, one_input(("batch", seq), (1, seq), {"1": reason}))


BUCKETS = [bucket(2), bucket(4)]


def accept_in_bucket(
    body: Any, among: Sequence[BucketContract] = BUCKETS, *, is_open: bool = False
) -> tuple[int, AcceptedInputs]:
    tensors = inference_json.read(body, Expected.of([each.method for each in among])).tensors
    return buckets.accept(tensors, among, is_open=is_open)


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        ([[1, 2]], 0),
        ([[1, 2, 3, 4]], 1),
        ([[1, 2, 3, 4], [5, 6, 7, 8]], 1),
        ({"data": [[1, 2, 3, 4]]}, 1),
        ({"data": [1, 2, 3, 4], "shape": [2, 2]}, 0),
        ({"data": [1, 2, 3, 4], "shape": [1, 4]}, 1),
    ],
)
def test_the_bucket_that_takes_the_sizes_is_told(value: Any, taken: int) -> None:
    place, accepted = accept_in_bucket({"args": [value]})

    assert place == taken
    assert accepted.tensors[0].shape[1] == BUCKETS[taken].sizes["seq"]


@pytest.mark.parametrize("value", [[[1, 2, 3]], [[1, 2, 3]] * 5])
def test_where_no_bucket_takes_the_sizes_those_that_there_are_are_told(value: Any) -> None:
    with pytest.raises(NoBucket) as refused:
        accept_in_bucket({"args": [value]})

    assert refused.value.facts["buckets"] == [{"seq": 2}, {"seq": 4}]
    assert refused.value.facts["actual"] == {"x": [len(value), len(value[0])]}
    assert [one["bucket"] for one in refused.value.facts["refused"]] == [{"seq": 2}, {"seq": 4}]


@pytest.mark.parametrize(("length", "place"), [(2, 0), (4, 1)])
def test_where_the_bucket_of_the_size_refuses_another_size_that_one_is_named(length: int, place: int) -> None:
    with pytest.raises(SizeOutOfRange) as refused:
        accept_in_bucket({"args": [[[1] * length] * 5]})

    assert refused.value.facts["bucket"] == BUCKETS[place].sizes
    assert f"in the bucket of seq {length}, " in refused.value.detail
    assert "batch is 5" in refused.value.detail


@pytest.mark.parametrize(
    ("body", "slug"),
    [
        ({"args": [[1, 2]]}, "shape-mismatch"),
        ({"args": []}, "missing-input"),
        ({"args": [{"data": [1, 2, 3, 4]}]}, "invalid-tensor"),
        ({"args": [{"data": [[1, 2]], "datatype": "FP64"}]}, "datatype-mismatch"),
    ],
)
def test_what_no_sizes_would_mend_is_refused_as_without_buckets(body: dict[str, Any], slug: str) -> None:
    with pytest.raises(ServiceError) as refused:
        accept_in_bucket(body)
    assert refused.value.slug() == slug


@pytest.mark.parametrize("reason", ["trace", "untried"])
def test_an_open_contract_opens_no_bucket_for_another_size_than_its_own(reason: str) -> None:
    """Which is baked in, also where a bucket alone does not tell."""
    with pytest.raises(NoBucket):
        accept_in_bucket({"args": [[[1, 2, 3]]]}, [bucket(2, reason), bucket(4, reason)], is_open=True)

    place, accepted = accept_in_bucket({"args": [[[1, 2, 3, 4]] * 5]}, is_open=True)

    assert place == 1
    assert "batch is 5" in accepted.warnings[0]


# def forward(self, x): traced on x 2×2, and checked on x 3×2×2 and on x 2 too
RANKS = METHOD.model_copy(
    update={
        "arguments": METHOD.arguments[:1],
        "inputs": [spec("x", Datatype.FP32, 2, 2)],
        "other_ranks": [
            OtherRanks(inputs=[spec("x", Datatype.FP32, 3, 2, 2)], outputs=METHOD.outputs),
            OtherRanks(inputs=[spec("x", Datatype.FP32, 2)], outputs=METHOD.outputs),
        ],
    }
)


def shape_of(body: dict[str, Any]) -> tuple[int, ...]:
    (one,) = accept(body, RANKS).tensors
    return one.shape


@pytest.mark.parametrize(("data", "shape"), [(X, (2, 2)), ([X, X, X], (3, 2, 2)), ([1.0, 2.0], (2,))])
def test_nested_lists_may_have_any_rank_that_the_contract_accepts(data: list[Any], shape: tuple[int, ...]) -> None:
    assert shape_of({"args": [data]}) == shape
    assert shape_of({"inputs": {"x": data}}) == shape


def test_flat_data_without_a_shape_has_the_rank_of_the_example() -> None:
    assert shape_of({"inputs": {"x": {"data": [1.0, 2.0, 3.0, 4.0]}}}) == (2, 2)
    assert shape_of({"inputs": {"x": {"data": [1.0, 2.0], "shape": [2]}}}) == (2,)


def test_lists_of_no_accepted_rank_are_answered_with_those_that_are() -> None:
    with pytest.raises(ShapeMismatch) as refused:
        accept({"args": [[[[X]]]]}, RANKS)
    assert "[2, 2] or [3, 2, 2] or [2]" in refused.value.detail


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"model":"net","args":[]}', "net"),
        (b' {\n "model" : "net@prod" , "args": []}', "net@prod"),
        (b'{"args":[],"model":"net:1"} \n', "net:1"),
        (b'{"model":"net"}', "net"),
        (b'{"args":[],"model":"net","id":"x"}', None),
        (b'{"args":[{"model":"net"}]}', None),
        (b'{"kwargs":{"model":"net"}}', None),
        (b'{"id":"\\"model\\":\\"net\\"}"}', None),
        (b'{"model":"n\\u0065t"}', None),
        (b'{"model":7}', None),
        (b"", None),
        (b'[{"model":"net"}]', None),
    ],
)
def test_a_model_that_is_named_first_or_last_is_found_without_parsing(text: bytes, found: str | None) -> None:
    assert inference_json.find_model(text) == found


def test_a_model_in_the_middle_of_a_large_body_is_left_to_the_parser() -> None:
    assert inference_json.find_model(b'{"args":[],"model":"net"' + b" " * 2000 + b"}") is None


@pytest.mark.parametrize("text", [b'{"model":"net","args":[],"model":"other"}', b'{"args":[],"model":"net"'])
def test_what_was_found_is_parsed_as_strictly(text: bytes) -> None:
    with pytest.raises(MalformedJson):
        inference_json.parse(text, [METHOD], model="net")


def test_a_body_that_names_another_model_than_was_found_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        inference_json.parse(b'{"model":"other","args":[[1]]}', [METHOD], model="net")

    assert refused.value.facts["errors"][0]["pointer"] == "/model"
