"""Other ranks of inputs in a contract: what is accepted, in what words the rest is refused, and what covers them."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.contracts import Shape, method
from tracehouse.contract.contract import Contract, MethodContract, OtherRanks
from tracehouse.contract.coverage import list_uncovered
from tracehouse.contract.memory import Memory, SizeProduct
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.errors import ShapeMismatch, SizeOutOfRange, TooMuchMemory
from tracehouse.tensors.tensor import Datatype, Tensor, TensorSpec

PAGES: dict[str, Shape] = {"ids": ("batch", "seq"), "mask": ("batch", "seq")}
LINES: dict[str, Shape] = {"ids": ("seq",), "mask": ("seq",)}
SHARED: dict[str, Shape] = {"ids": ("batch", "seq"), "mask": ("seq",)}
SIZES = {"batch": "2..8", "seq": "4..16"}


def ranks(shapes: dict[str, Shape], *boxes: dict[str, str], **changes: Any) -> OtherRanks:
    return OtherRanks.of(method(shapes, *boxes, **changes))


def with_ranks(*others: OtherRanks) -> MethodContract:
    contract = Contract(methods={"forward": method(PAGES, SIZES)})
    return contract.with_other_ranks({"forward": others}).method("forward")


BOTH = with_ranks(ranks(LINES, {"seq": "1..32"}), ranks(SHARED, SIZES))


def sent(*shapes: tuple[int, ...]) -> list[Tensor]:
    sizes = zip(("ids", "mask"), shapes, strict=True)
    specs = [TensorSpec(name=name, datatype=Datatype.INT64, shape=shape) for name, shape in sizes]
    return [Tensor(one.name, one.datatype, one.shape, bytes(one.byte_size)) for one in specs]


@pytest.mark.parametrize("shapes", [((2, 4), (2, 4)), ((32,), (32,)), ((8, 16), (16,))])
def test_each_combination_of_ranks_has_sizes_of_its_own(shapes: Any) -> None:
    assert [one.shape for one in BOTH.accept(sent(*shapes)).tensors] == [*shapes]
    assert BOTH.takes([one.spec for one in sent(*shapes)])


def test_sizes_outside_the_regions_of_these_ranks_are_refused_by_them() -> None:
    with pytest.raises(SizeOutOfRange) as refused:
        BOTH.accept(sent((33,), (33,)))

    assert refused.value.facts["sizes"] == {"seq": 33}
    assert [(one["low"], one["high"]) for one in refused.value.facts["allowed"]] == [(1, 32)]


def test_sizes_beyond_the_called_ones_are_bounded_by_the_memory_of_these_ranks() -> None:
    region = Region(spans={"seq": [Span(low=1, high=32)]}, basis="proven", beyond={"seq": 1000})
    memory = Memory(bytes=[SizeProduct(times=8, powers={"seq": 1})], elements=[])
    lines = ranks(LINES, {"seq": "1..32"}).model_copy(update={"regions": [region], "memory": memory})

    assert with_ranks(lines).accept(sent((33,), (33,)), memory_max_bytes=8 * 33)
    with pytest.raises(TooMuchMemory):
        with_ranks(lines).accept(sent((34,), (34,)), memory_max_bytes=8 * 33)


def test_an_output_may_have_another_datatype_in_other_ranks() -> None:
    lines = ranks(LINES, {"seq": "1..32"}, outputs=[OutputSpec(name="output", datatype=Datatype.FP64, shape=(-1,))])

    assert with_ranks(lines).output_datatypes(sent((4,), (4,))) == {"output": Datatype.FP64}
    assert with_ranks(lines).output_datatypes(sent((2, 4), (2, 4))) == {"output": Datatype.FP32}


def test_a_rank_that_is_nowhere_is_refused_with_all_shapes_that_are_accepted() -> None:
    with pytest.raises(ShapeMismatch) as refused:
        BOTH.accept(sent((2, 4, 1), (4,)))

    assert "'ids' is [2, 4, 1], not [batch, seq] or [seq]" in refused.value.detail
    assert "Send 1 or 2 dims" in str(refused.value.facts["remedy"])


def test_ranks_that_are_accepted_apart_alone_are_refused_together() -> None:
    with pytest.raises(ShapeMismatch) as refused:
        BOTH.accept(sent((4,), (2, 4)))

    assert "only beside other ranks of the other inputs" in refused.value.detail


def test_an_open_contract_opens_no_rank() -> None:
    with pytest.raises(ShapeMismatch):
        with_ranks().accept(sent((4,), (4,)), is_open=True)


@pytest.mark.parametrize(
    "other",
    [
        ranks(PAGES, SIZES),  # the example's own
        ranks({"ids": ("seq",)}, {"seq": "1..32"}),
        ranks(LINES, {"seq": "1..32"}, datatype=Datatype.INT32),
        ranks(LINES, {"seq": "1..32"}).model_copy(update={"regions": []}),
        ranks(LINES, {"seq": "1..32"}).model_copy(update={"outputs": []}),
    ],
)
def test_other_ranks_that_do_not_fit_the_method_are_no_contract(other: OtherRanks) -> None:
    with pytest.raises(ValidationError):
        with_ranks(other)


def test_a_method_that_draws_random_numbers_takes_one_rank() -> None:
    contract = Contract(methods={"forward": BOTH}).with_stochastic(["forward"])

    assert contract.method("forward").other_ranks == []


def test_a_contract_survives_json() -> None:
    assert MethodContract.model_validate_json(BOTH.model_dump_json()) == BOTH


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (with_ranks(), BOTH, None),
        (BOTH, BOTH, None),
        (BOTH, with_ranks(*BOTH.other_ranks[::-1]), None),
        (BOTH, with_ranks(BOTH.other_ranks[0]), "'ids' as [batch, seq] with 'mask' as [seq] is no longer accepted"),
        (
            BOTH,
            with_ranks(ranks(LINES, {"seq": "1..16"}), BOTH.other_ranks[1]),
            "of 'ids' as [seq] with 'mask' as [seq]: sizes 17 to 32 of 'seq' (dim 0 of input 'ids') are no longer "
            "accepted",
        ),
    ],
)
def test_a_version_covers_another_one_in_all_ranks(old: MethodContract, new: MethodContract, said: str | None) -> None:
    uncovered = list_uncovered([Contract(methods={"forward": old})], [Contract(methods={"forward": new})])

    assert uncovered == ([] if said is None else [said])
