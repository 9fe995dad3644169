"""Sizes beyond those that were called are taken as far as memory allows; the sizes that were called always."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.contracts import contract, method
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.coverage import list_uncovered
from tracehouse.contract.memory import ELEMENTS_MAX, Memory, SizeProduct
from tracehouse.contract.regions import Region, Span
from tracehouse.errors import SizeOutOfRange, TooMuchMemory
from tracehouse.tensors.tensor import Datatype, Tensor

MIB = 2**20


def quadratic(times: float = 16) -> Memory:
    return Memory(
        bytes=[SizeProduct(times=times, powers={"seq": 2}), SizeProduct(times=100, powers={})],
        elements=[SizeProduct(times=times / 4, powers={"seq": 2})],
    )


def going_on(high: int = 64, *, step: int = 1, end: int = 2**20, memory: Memory | None = None) -> MethodContract:
    """A method whose `seq` is proven up to `high` with calls, and beyond it to `end`."""
    region = Region(spans={"seq": [Span(low=step, high=high, step=step)]}, basis="proven", beyond={"seq": end})
    plain = method({"ids": ("seq",)}, {"seq": f"{step}..{high}..{step}"})
    return MethodContract.model_validate({**dict(plain), "regions": [region], "memory": memory or quadratic()})


def ids(size: int) -> list[Tensor]:
    return [Tensor("ids", Datatype.INT64, (size,), b"")]


def accept(taker: MethodContract, size: int, **limit: Any) -> list[Tensor]:
    return taker.accept(ids(size), **limit).tensors


def test_a_size_beyond_those_that_were_called_is_taken_if_there_is_memory_for_it() -> None:
    assert accept(going_on(), 200, memory_max_bytes=MIB)


def test_a_size_that_needs_too_much_memory_is_refused_with_the_clause_the_sizes_and_the_limit() -> None:
    with pytest.raises(TooMuchMemory) as refused:
        accept(going_on(), 1000, memory_max_bytes=MIB)

    facts = refused.value.facts
    assert (facts["clause"], facts["sizes"]) == ("memory", {"seq": 1000})
    assert (facts["needed_bytes"], facts["limit_bytes"]) == (16 * 1000**2 + 100, MIB)
    assert "seq 1000" in refused.value.detail
    assert "1 MiB" in refused.value.detail


def test_sizes_that_were_called_are_taken_whatever_the_limit_is() -> None:
    assert accept(going_on(), 64, memory_max_bytes=1)


def test_without_a_limit_no_tensor_may_have_more_elements_than_32_bits_count() -> None:
    largest = int((ELEMENTS_MAX / 4) ** 0.5)

    assert accept(going_on(), largest)
    with pytest.raises(TooMuchMemory) as refused:
        accept(going_on(), largest + 1)
    assert refused.value.facts["elements_max"] == ELEMENTS_MAX


@pytest.mark.parametrize(("size", "is_taken"), [(72, True), (73, False), (2**20, True), (2**20 + 8, False)])
def test_sizes_beyond_go_on_in_the_steps_of_the_last_span_up_to_their_end(size: int, is_taken: bool) -> None:
    little = Memory(bytes=[SizeProduct(times=1, powers={"seq": 1})], elements=[])
    taker = going_on(step=8, memory=little)

    if is_taken:
        assert accept(taker, size)
    else:
        with pytest.raises(SizeOutOfRange):
            accept(taker, size)


def test_a_contract_has_no_sizes_beyond_without_a_bound_of_their_memory() -> None:
    plain = dict(going_on())

    with pytest.raises(ValidationError):
        MethodContract.model_validate({**plain, "memory": None})


def test_only_proven_sizes_go_on() -> None:
    with pytest.raises(ValidationError):
        Region(spans={"seq": [Span(low=1, high=4)]}, basis="tested", beyond={"seq": 8})


def test_the_memory_of_fixed_symbols_is_a_number() -> None:
    both = Memory(bytes=[SizeProduct(times=2, powers={"batch": 1, "seq": 2})], elements=[])

    assert both.at_fixed({"batch": 3}) == Memory(bytes=[SizeProduct(times=6, powers={"seq": 2})], elements=[])


def versions(old: MethodContract, new: MethodContract) -> list[str]:
    wrapped = [contract({"ids": ("seq",)}, {"seq": "1"}).model_copy(update={"methods": {"forward": one}})
               for one in (old, new)]  # fmt: skip
    return list_uncovered([wrapped[0]], [wrapped[1]])


def test_a_new_version_with_the_same_sizes_and_no_more_memory_covers_the_old_one() -> None:
    assert versions(going_on(), going_on(memory=quadratic(8))) == []


def test_a_new_version_covers_an_old_one_without_sizes_beyond() -> None:
    assert versions(method({"ids": ("seq",)}, {"seq": "1..64"}), going_on()) == []


def test_a_new_version_that_needs_far_more_memory_does_not_cover_the_old_one() -> None:
    assert versions(going_on(), going_on(memory=quadratic(32))) == []

    [what] = versions(going_on(), going_on(memory=quadratic(64)))

    assert "64·seq^2" in what
    assert "16·seq^2" in what


def test_a_new_version_without_the_sizes_beyond_does_not_cover_the_old_one() -> None:
    [what] = versions(going_on(), method({"ids": ("seq",)}, {"seq": "1..64"}))

    assert what == f"sizes 65 to {2**20} of 'seq' (dim 0 of input 'ids') are no longer accepted"


def test_sizes_that_were_taken_always_and_now_only_with_enough_memory_are_not_covered() -> None:
    [what] = versions(method({"ids": ("seq",)}, {"seq": "1..100"}), going_on())

    assert what == "sizes 65 to 100 of 'seq' (dim 0 of input 'ids') are no longer accepted whatever memory they need"
