"""Which of two contracts accepts less, and in what words that is said."""

import random
from itertools import combinations, product
from typing import Any

import pytest

from tests.contracts import Shape, contract, method
from tracehouse.contract.box_cover import Effort, Limits, TooManySizes, find_gap
from tracehouse.contract.contract import Batch, Contract, MethodContract
from tracehouse.contract.coverage import list_uncovered
from tracehouse.contract.dims import symbols_of
from tracehouse.contract.input_spec import ValueRange
from tracehouse.contract.regions import REGIONS_MAX
from tracehouse.contract.structure import (
    Argument,
    BakedLeaf,
    DictNode,
    FixedLeaf,
    NamedTupleNode,
    Structure,
    TensorLeaf,
    TupleNode,
)
from tracehouse.tensors.tensor import Datatype, TensorSpec

IDS: dict[str, Shape] = {"ids": ("batch", "seq")}


def test_a_contract_covers_itself() -> None:
    same = contract(IDS, {"batch": "1..8", "seq": "1..512"}, {"batch": "1", "seq": "8..4096..8"})

    assert list_uncovered([same], [same]) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("1..32", "1..16", "sizes 17 to 32 of 'seq' (dim 1 of input 'ids') are no longer accepted"),
        ("1..32", "2..32", "size 1 of 'seq' (dim 1 of input 'ids') is no longer accepted"),
        ("1..4", "2..3", "sizes 1 and 4 of 'seq' (dim 1 of input 'ids') are no longer accepted"),
        (
            "8..64..8",
            "16..64..16",
            "sizes 8 to 56 in steps of 16 of 'seq' (dim 1 of input 'ids') are no longer accepted",
        ),
        ("8..64..8", "1..64", None),
        ("12..120..12", "4..120..4 1000..2000", None),
        ("1..10", "1..4 5..10", None),
        ("1..10", "1..10..2 2..10..2", None),
        ("7 9 11", "7..11..2", None),
        (f"0..{2**48}", f"0..{2**48}..2 1..{2**48 - 1}..2", None),
        (
            "1 3 5 7 9 11",
            "1",
            "sizes 3 and 5 and 7 and 9 and 1 more of 'seq' (dim 1 of input 'ids') are no longer accepted",
        ),
    ],
)  # fmt: skip
def test_the_sizes_that_are_refused_now_are_named(old: str, new: str, said: str | None) -> None:
    before, now = (contract(IDS, {"batch": "1..8", "seq": seq}) for seq in (old, new))

    assert list_uncovered([before], [now]) == ([said] if said else [])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (BakedLeaf(baked=4), BakedLeaf(baked=4), None),
        (BakedLeaf(baked=4), BakedLeaf(baked=4.0), "the constant 'output.1' is another one"),
        (BakedLeaf(baked=4), BakedLeaf(baked=True), "the constant 'output.1' is another one"),
        (BakedLeaf(baked=None), DictNode(mapping={}), "what is returned nests in another way"),
    ],
)
def test_other_constants_and_another_nesting_of_what_is_returned_are_named(
    old: Structure, new: Structure, said: str | None
) -> None:
    before, now = (
        contract(IDS, {"batch": "1..8", "seq": "8"}, returns=TupleNode(tuple=[TensorLeaf(tensor="output"), leaf]))
        for leaf in (old, new)
    )

    assert list_uncovered([before], [now]) == ([said] if said else [])


def test_a_named_tuple_is_no_other_nesting_than_a_tuple() -> None:
    returns = [
        TupleNode(tuple=[TensorLeaf(tensor="output")]),
        NamedTupleNode(namedtuple={"y": TensorLeaf(tensor="output")}),
    ]
    before, now = (contract(IDS, {"batch": "1..8", "seq": "8"}, returns=one) for one in returns)

    assert list_uncovered([before], [now]) == []


def test_regions_together_cover_a_region() -> None:
    one = {"batch": "1..8", "seq": "1..100"}
    two = [{"batch": "1..8", "seq": "1..60"}, {"batch": "1..8", "seq": "40..100"}]
    four = [{"batch": batch, "seq": seq} for batch in ("1..4", "5..8") for seq in ("1..50", "51..100")]

    for cover in (two, four):
        assert list_uncovered([contract(IDS, one)], [contract(IDS, *cover)]) == []
    [said] = list_uncovered([contract(IDS, one)], [contract(IDS, *four[:3])])
    assert said == "batch 5, seq 51 together are no longer accepted"


def test_a_dim_that_is_fixed_now_is_named() -> None:
    before, now = contract({"x": (1, "n")}, {"n": "1..9"}), contract({"x": (2, "n")}, {"n": "1..9"})

    assert list_uncovered([before], [now]) == ["size 1 of dim 0 of input 'x' is no longer accepted"]


def test_a_number_that_became_a_symbol_is_covered_and_not_the_other_way_round() -> None:
    fixed, varies = contract({"x": (1, 4)}), contract({"x": ("batch", 4)}, {"batch": "1..8"})

    assert list_uncovered([fixed], [varies]) == []
    assert list_uncovered([varies], [fixed]) == ["sizes 2 to 8 of 'batch' (dim 0 of input 'x') are no longer accepted"]


def test_symbols_are_followed_whatever_they_are_called() -> None:
    before = contract({"x": ("n", "2*n+1"), "y": ("m",)}, {"n": "1..10", "m": "1..5"})
    now = contract({"y": ("rows",), "x": ("half", "odd")}, {"rows": "0..5", "half": "1..10", "odd": "3..21..2"})

    said = list_uncovered([before], [now])

    assert [what for what in said if "argument" not in what] == []
    narrower = contract({"x": ("half", "odd"), "y": ("rows",)}, {"rows": "0..5", "half": "1..10", "odd": "3..19..2"})
    assert list_uncovered([before], [narrower]) == ["size 10 of 'n' (dim 0 of input 'x') is no longer accepted"]


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ("(rows-5)//10", []),
        ("(rows-4)//10", ["the sizes of dim 0 of input 'mask' are not shown to be accepted"]),
        ("(rows-5)//5", ["the sizes of dim 0 of input 'mask' are not shown to be accepted"]),
        ("rows-20", ["the sizes of dim 0 of input 'mask' are not shown to be accepted"]),
        ("frames", ["the sizes of dim 0 of input 'mask' are not shown to be accepted"]),
    ],
)
def test_a_dim_that_is_rounded_must_be_rounded_alike(frames: str, said: list[str]) -> None:
    before = contract({"x": ("samples",), "mask": ("(samples-5)//10",)}, {"samples": "20..90"})
    now = contract(
        {"x": ("rows",), "mask": (frames,)}, {"rows": "20..100"} | ({"frames": "0..9"} if frames == "frames" else {})
    )

    assert list_uncovered([before], [now]) == said


def test_of_one_size_a_rounded_dim_is_a_number() -> None:
    before = contract({"x": ("n",), "mask": (2,)}, {"n": "25"})
    now = contract({"x": ("n",), "mask": ("(n-5)//10",)}, {"n": "20..30"})

    assert list_uncovered([before], [now]) == []


def test_dims_that_must_be_equal_now_are_not_covered() -> None:
    before = contract({"x": ("n",), "y": ("m",)}, {"n": "1..3", "m": "1..3"})
    now = contract({"x": ("n",), "y": ("n",)}, {"n": "1..3"})

    assert list_uncovered([before], [now]) == ["the sizes of dim 0 of input 'y' are not shown to be accepted"]
    assert list_uncovered([now], [before]) == []


def test_buckets_count_together() -> None:
    buckets = [contract({"ids": ("batch", seq)}, {"batch": "1..8"}) for seq in (8, 16, 32)]
    before = contract(IDS, {"batch": "1..8", "seq": "8 16"})

    assert list_uncovered(buckets, buckets) == []
    assert list_uncovered([before], buckets) == []
    assert list_uncovered(buckets[:2], [before]) == []
    assert list_uncovered(buckets, [before]) == ["size 32 of dim 1 of input 'ids' is no longer accepted"]
    assert list_uncovered(buckets, buckets[:2]) == ["size 32 of dim 1 of input 'ids' is no longer accepted"]


X: dict[str, Shape] = {"x": (2,)}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({}, {"datatype": Datatype.INT32}, ["input 'x' is INT32, and was INT64"]),
        ({"values": ValueRange(low=0, high=99, basis="tested")}, {}, []),
        (
            {"values": ValueRange(low=0, high=99, basis="tested")},
            {"values": ValueRange(low=0, high=49, basis="tested")},
            ["values of input 'x' may be 0 to 49, and might be 0 to 99"],
        ),
        (
            {"datatype": Datatype.UINT8},
            {"datatype": Datatype.UINT8, "values": ValueRange(low=0, high=255, basis="tested")},
            [],
        ),
        (
            {"datatype": Datatype.UINT8},
            {"datatype": Datatype.UINT8, "values": ValueRange(high=254, basis="tested")},
            ["values of input 'x' may be 0 to 254, and might be 0 to 255"],
        ),
        ({"output": (2,)}, {"output": (3,)}, ["dim 0 of output 'output' is 3, and was 2"]),
        ({"output": (2,)}, {"output": (-1,)}, ["dim 0 of output 'output' is not known any more, and was 2"]),
        ({"output": (-1,)}, {"output": (3,)}, []),
        ({"output": (2,)}, {"output": (2, 1)}, ["output 'output' has 2 dims, and had 1"]),
    ],
)
def test_what_else_is_narrower_is_named(old: dict[str, Any], new: dict[str, Any], said: list[str]) -> None:
    assert list_uncovered([contract(X, **old)], [contract(X, **new)]) == said


def test_inputs_and_methods_that_come_or_go_are_named() -> None:
    one, two = contract({"x": (2,)}), contract({"x": (2,), "mask": (2,)})

    assert list_uncovered([one], [two]) == ["input 'mask' is required"]
    assert list_uncovered([two], [one]) == ["input 'mask' is gone", "argument 2 is not 'mask' any more"]
    with_encode = Contract(methods={**one.methods, "encode": one.methods["forward"]})
    assert list_uncovered([one], [with_encode]) == []
    assert list_uncovered([with_encode], [one]) == ["method 'encode': it is gone"]


def with_scale(structure: Structure) -> Contract:
    """One whose forward has a second argument, without a tensor."""
    arguments = [Argument(name="x", structure=TensorLeaf(tensor="x")), Argument(name="scale", structure=structure)]
    return contract(X, arguments=arguments)


def test_arguments_that_are_no_tensors_must_be_the_same() -> None:
    half, quarter = with_scale(BakedLeaf(baked=0.5)), with_scale(BakedLeaf(baked=0.25))

    assert list_uncovered([half], [quarter]) == ["'scale' is 0.25, and was 0.5"]
    assert list_uncovered([half], [with_scale(FixedLeaf(fixed=0.5))]) == []
    assert list_uncovered([contract(X)], [half]) == []
    assert list_uncovered([half], [contract(X)]) == ["argument 2 is not 'scale' any more"]
    one, other = (
        {"a": BakedLeaf(baked=1), "b": BakedLeaf(baked=2)},
        {"b": BakedLeaf(baked=2), "a": BakedLeaf(baked=1)},
    )
    assert list_uncovered([with_scale(DictNode(mapping=one))], [with_scale(DictNode(mapping=other))]) == []
    [said] = list_uncovered([half], [with_scale(DictNode(mapping={}))])
    assert "scale" in said


def test_a_datatype_that_is_refused_now_is_named() -> None:
    one = method({"ids": (4,)})
    several = one.inputs[0].model_copy(update={"datatypes": [Datatype.INT64, Datatype.INT32]})
    both = Contract(methods={"forward": one.model_copy(update={"inputs": [several]})})
    own = Contract(methods={"forward": one})

    assert list_uncovered([own], [both]) == []
    assert "input 'ids' is INT64, and was INT64 or INT32" in str(list_uncovered([both], [own]))


FLOATS = [Datatype.FP32, Datatype.FP16]


def floats(follows: str | None = None, *, of: str = "xy", datatype: Datatype = Datatype.FP32) -> Contract:
    """A method of x and y that may have several datatypes, as far as `of` names them, and an output that follows."""
    one = method({"x": (4,), "y": (4,)})
    inputs = [
        spec.model_copy(update={"datatype": Datatype.FP32, "datatypes": FLOATS if spec.name in of else []})
        for spec in one.inputs
    ]
    outputs = [spec.model_copy(update={"datatype": datatype, "datatype_of": follows}) for spec in one.outputs]
    return Contract(methods={"forward": one.model_copy(update={"inputs": inputs, "outputs": outputs})})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (floats("x"), floats("x"), None),
        (floats("x"), floats(), "output 'output' is FP32 if x is FP16, and was FP16"),
        (floats(), floats("x"), "output 'output' is FP16 if x is FP16, and was FP32"),
        (floats("x"), floats("y"), "output 'output' is FP16 if x is FP32 and if y is FP16, and was FP32"),
        # x was not accepted in another datatype, so nobody got another one back.
        (floats(of="y"), floats("x"), None),
        (floats(), floats(datatype=Datatype.FP64), "output 'output' is FP64, and was FP32"),
    ],
)
def test_a_datatype_that_an_output_has_otherwise_for_what_was_accepted_is_named(
    old: Contract, new: Contract, said: str | None
) -> None:
    assert list_uncovered([old], [new]) == ([] if said is None else [said])


def test_a_range_of_values_is_that_of_all_datatypes() -> None:
    """All values of an INT32 are in the new range, and not all of the INT64 that was accepted too."""
    ids = method({"ids": (4,)})
    spec = ids.inputs[0].model_copy(update={"datatype": Datatype.INT32, "datatypes": [Datatype.INT32, Datatype.INT64]})
    limited = spec.model_copy(update={"values": ValueRange(low=-(2**31), high=2**31 - 1, basis="tested")})
    old, new = (Contract(methods={"forward": ids.model_copy(update={"inputs": [one]})}) for one in (spec, limited))

    assert "values of input 'ids' may be -2147483648 to 2147483647" in str(list_uncovered([old], [new]))


def test_an_order_of_keys_that_was_free_is_named() -> None:
    def ordered(keys: list[str]) -> Contract:
        return contract(X, key_orders={"d": keys} if keys else {})

    free, fixed, other = ordered([]), ordered(["a", "b"]), ordered(["b", "a"])

    assert list_uncovered([fixed], [free]) == []
    assert list_uncovered([fixed], [fixed]) == []
    assert list_uncovered([free], [fixed]) == ["the keys of 'd' must come in the order a, b, and came in any order"]
    assert list_uncovered([other], [fixed]) == [
        "the keys of 'd' must come in the order a, b, and came in the order b, a"
    ]


def test_a_batch_that_is_not_as_good_is_named() -> None:
    def batched(up_to: int | None, dim: int = 0) -> Contract:
        batch = None if up_to is None else Batch(symbol="n", up_to=up_to, inputs={"x": dim}, outputs={"output": dim})
        return contract({"x": ("n", "n")}, {"n": "1..9"}, output=("n", "n"), batch=batch)

    assert list_uncovered([batched(None)], [batched(8)]) == []
    assert list_uncovered([batched(8)], [batched(9)]) == []
    assert list_uncovered([batched(8)], [batched(7)]) == ["one call may have 7 rows, and might have 8"]
    assert list_uncovered([batched(8)], [batched(None)]) == ["rows are not known to be independent any more"]
    assert list_uncovered([batched(8)], [batched(8, 1)]) == ["rows are known to be independent in other dims"]


def test_an_open_contract_is_covered_by_one_that_is_open_alike() -> None:
    boxes = {"batch": "1..8", "seq": "1..32"}
    closed, opened = contract(IDS, boxes), contract(IDS, boxes, is_open=True)
    refused = ["sizes that were never tried, which were answered with a warning, are refused"]

    assert list_uncovered([opened], [opened]) == []
    assert list_uncovered([closed], [opened]) == []
    assert list_uncovered([opened], [closed]) == refused
    wrong = contract(IDS, boxes, is_open=True, wrong=[{"batch": 1, "seq": 33}])
    assert list_uncovered([wrong], [opened]) == []
    assert list_uncovered([opened], [wrong]) == refused


def test_contracts_with_too_many_sizes_are_not_compared() -> None:
    """Steps without a common divisor: whether they cover a range hangs on the residues of a huge number."""
    primes = " ".join(f"0..{2**40}..{prime}" for prime in (8191, 8209, 8219, 8221, 8231))

    assert list_uncovered(
        [contract({"x": ("n",)}, {"n": f"0..{2**40}"})], [contract({"x": ("n",)}, {"n": primes})]
    ) == ["the contracts have too many sizes to be compared"]


def test_a_comparison_is_bounded() -> None:
    """Of the largest contracts that there may be: it is held under the lock of the database."""
    symbols = [f"s{number}" for number in range(8)]
    boxes = [
        dict.fromkeys(symbols, " ".join(f"{place * 7 + place_of_box}" for place in range(50)))
        for place_of_box in range(REGIONS_MAX)
    ]
    large = contract({"x": tuple(symbols)}, *boxes)

    assert list_uncovered([large] * 32, [large] * 32) in ([], ["the contracts have too many sizes to be compared"])


def test_so_is_the_search_among_boxes_that_only_cover_a_size_together() -> None:
    """Size n is in another seven of the twelve boxes, so no size leaves out another one."""
    boxes_of_sizes = [*combinations(range(12), 7)]
    sizes_of_boxes = [
        [range(size, size + 1) for size, boxes in enumerate(boxes_of_sizes) if box in boxes] for box in range(12)
    ]
    cover = [Limits({"n": [sizes]}) for sizes in sizes_of_boxes]
    sizes = {"n": [range(len(boxes_of_sizes))]}

    assert find_gap(sizes, cover, Effort()) is None
    with pytest.raises(TooManySizes):
        find_gap(sizes, cover, Effort(len(boxes_of_sizes) ** 2 // 4))


DIMS: list[int | str] = [1, 2, 3, "a", "b", "2*a", "a+1", "a+b", "b+2", "(a+1)//2", "(2*b)//3"]


def random_shapes(draw: random.Random) -> dict[str, Shape]:
    return {name: tuple(draw.choices(DIMS, k=2)) for name in ("x", "y")}


def random_contract(draw: random.Random, shapes: dict[str, Shape]) -> MethodContract | None:
    """None if the draw is no contract."""
    symbols = sorted(symbols_of([dim for shape in shapes.values() for dim in shape]))
    boxes = [
        {symbol: draw.choice(["1..4", "1..2", "3..4", "2", "1..3..2", "0..4..2", "2 4"]) for symbol in symbols}
        for _ in range(draw.randint(1, 3))
    ]
    try:
        return method(shapes, *(boxes if symbols else []))
    except ValueError:
        return None


def specs_of(sizes: tuple[int, ...]) -> list[TensorSpec]:
    shapes = {"x": sizes[:2], "y": sizes[2:]}
    return [TensorSpec(name=name, datatype=Datatype.INT64, shape=shape) for name, shape in shapes.items()]


def test_what_is_covered_is_accepted_whatever_the_contracts_are() -> None:
    """Compared with all sizes, one by one."""
    draw = random.Random(0)
    shapes = [random_shapes(draw) for _ in range(16)]
    drawn = [found for each in shapes * 3 if (found := random_contract(draw, each)) is not None]
    asked = {sizes: specs_of(sizes) for sizes in product(range(9), repeat=4)}
    taken = [{sizes for sizes, specs in asked.items() if found.takes(specs)} for found in drawn]
    covered = exact = 0
    for (old, before), (new, now) in product(zip(drawn, taken, strict=True), repeat=2):
        said = list_uncovered([Contract(methods={"forward": old})], [Contract(methods={"forward": new})])
        if not said:
            covered += 1
            assert before <= now, (old, new)
        elif "not shown" not in "".join(said):
            exact += 1
            assert not before <= now, (old, new, said)
    assert covered > len(drawn)
    assert exact > 200


def test_answers_that_became_random_are_named_and_not_the_other_way_round() -> None:
    steady = contract(IDS, {"batch": "1..8", "seq": "8"})
    random_answers = steady.with_stochastic(["forward"])

    [said] = list_uncovered([steady], [random_answers])
    assert "draws random numbers" in said
    assert list_uncovered([random_answers], [steady]) == []
