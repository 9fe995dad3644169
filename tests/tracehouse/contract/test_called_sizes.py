"""What is left of a contract without the word of the process that traced."""

import pytest

from tests.contracts import contract, method
from tracehouse.contract.called_sizes import only_called
from tracehouse.contract.contract import Batch, Contract, OtherRanks
from tracehouse.contract.widening import widen
from tracehouse.tensors.tensor import Datatype, TensorSpec

BATCH = Batch(symbol="batch", up_to=8, inputs={"ids": 0}, outputs={})


def ids(*shape: int, datatype: Datatype = Datatype.INT64) -> list[TensorSpec]:
    return [TensorSpec(name="ids", datatype=datatype, shape=shape)]


def test_only_the_example_and_what_was_called_are_left() -> None:
    whole = contract({"ids": ("batch", "seq")}, {"batch": "1..8", "seq": "4..64"}, is_open=True, batch=BATCH)
    whole = whole.with_called({"forward": [{"batch": 8, "seq": 7}, {"batch": 9, "seq": 7}]})

    left = only_called(whole).method("forward")

    assert [left.takes(ids(*shape)) for shape in ((1, 4), (8, 7))] == [True, True]
    assert [left.takes(ids(*shape)) for shape in ((8, 4), (1, 7), (9, 7), (2, 5))] == [False] * 4
    assert (only_called(whole).open, left.batch) == (False, None)


def test_a_method_without_symbols_stays_as_it_is() -> None:
    fixed = contract({"ids": (2, 3)})

    assert only_called(fixed).method("forward").takes(ids(2, 3))


def test_other_datatypes_fall_away() -> None:
    whole = contract({"ids": ("batch",)}, {"batch": "1..8"})
    several = [spec.model_copy(update={"datatypes": [Datatype.INT64, Datatype.INT32]})
               for spec in whole.method("forward").inputs]  # fmt: skip
    whole = Contract(methods={"forward": whole.method("forward").model_copy(update={"inputs": several})})

    assert whole.method("forward").takes(ids(1, datatype=Datatype.INT32))
    assert not only_called(whole).method("forward").takes(ids(1, datatype=Datatype.INT32))


def test_other_ranks_are_narrowed_as_well() -> None:
    other = method({"ids": ("batch", "seq")}, {"batch": "1..8", "seq": "4..64"}).with_called([{"batch": 2, "seq": 9}])
    whole = contract({"ids": ("batch",)}, {"batch": "1..8"}, other_ranks=[OtherRanks.of(other)])

    left = only_called(whole).method("forward")

    assert [left.takes(ids(*shape)) for shape in ((1,), (1, 4), (2, 9))] == [True, True, True]
    assert [left.takes(ids(*shape)) for shape in ((2,), (2, 8), (8, 64))] == [False, False, False]


def test_a_contract_of_two_checks_has_what_both_called() -> None:
    shapes = {"ids": ("batch", "seq")}
    before = contract(shapes, {"batch": "1", "seq": "1..8"}, {"batch": "4", "seq": "1..4"})
    now = contract(shapes, {"batch": "1", "seq": "1..64"})

    widened = widen(
        before.with_called({"forward": [{"batch": 4, "seq": 3}]}),
        now.with_called({"forward": [{"batch": 1, "seq": 60}]}),
    )

    assert widened.method("forward").called == [{"batch": 4, "seq": 3}, {"batch": 1, "seq": 60}]


def test_a_wider_contract_keeps_what_the_check_before_called() -> None:
    before, now = contract({"ids": ("batch",)}, {"batch": "1..8"}), contract({"ids": ("n0",)}, {"n0": "1..9"})

    widened = widen(before.with_called({"forward": [{"batch": 4}]}), now.with_called({"forward": [{"n0": 7}]}))

    assert widened.method("forward").called == [{"n0": 4}, {"n0": 7}]
    assert [only_called(widened).method("forward").takes(ids(size)) for size in (4, 7, 8)] == [True, True, False]


def test_a_wider_contract_keeps_what_was_called_of_other_ranks() -> None:
    shapes = {"ids": ("batch", "seq")}
    before, now = (
        method(shapes, {"batch": "1..8", "seq": sizes}).with_called([{"batch": 2, "seq": called}])
        for sizes, called in (("4..8", 5), ("4..64", 9))
    )
    checks = [contract({"ids": ("batch",)}, {"batch": "1"}, other_ranks=[OtherRanks.of(one)]) for one in (before, now)]

    [other] = widen(*checks).method("forward").other_ranks

    assert other.called == [{"batch": 2, "seq": 5}, {"batch": 2, "seq": 9}]


@pytest.mark.parametrize("called", [{"batch": 9}, {"seq": 1}])
def test_called_sizes_outside_of_all_regions_are_no_contract(called: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="called sizes lie in no region"):
        contract({"ids": ("batch",)}, {"batch": "1..8"}, called=[called])
