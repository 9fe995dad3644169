"""What contract two checks of one archive lead to."""

import pytest

from tests.contracts import Shape, contract, regions
from tracehouse.contract.contract import Batch, Contract
from tracehouse.contract.coverage import list_uncovered
from tracehouse.contract.input_spec import ValueRange
from tracehouse.contract.regions import REGIONS_MAX
from tracehouse.contract.widening import accepts_more, list_refuted_sizes, widen

IDS: dict[str, Shape] = {"ids": ("batch", "seq")}


def accepts_all_of(wide: Contract, *narrow: Contract) -> bool:
    return not any(list_uncovered([one], [wide]) for one in narrow)


def test_a_wider_contract_stands_as_it_is() -> None:
    before, now = contract(IDS, {"batch": "1", "seq": "8"}), contract(IDS, {"batch": "1..8", "seq": "1..64"})

    assert widen(before, now) == now


def test_a_fixed_dim_that_may_vary_now_is_wider() -> None:
    before, now = contract({"ids": (1, 8)}), contract(IDS, {"batch": "1..8", "seq": "8..64"})

    assert widen(before, now) == now


def test_contracts_that_each_have_what_the_other_lacks_are_united() -> None:
    before = contract(IDS, {"batch": "1", "seq": "1..8"}, {"batch": "4", "seq": "1..4"})
    now = contract(IDS, {"batch": "1", "seq": "1..64"})

    widened = widen(before, now)

    assert accepts_all_of(widened, before, now)
    assert widened.methods["forward"].regions == [*now.methods["forward"].regions, *before.methods["forward"].regions]


def test_a_narrower_contract_leaves_the_one_before() -> None:
    before, now = contract(IDS, {"batch": "1..8", "seq": "8"}), contract({"ids": (1, 8)})

    assert widen(before, now) == before
    assert not accepts_more(before, before)


def test_contracts_that_cannot_be_stated_together_leave_the_one_before() -> None:
    """The regions of the second were found with other values."""
    before = contract(
        IDS, {"batch": "1", "seq": "1..8"}, {"batch": "4", "seq": "1"}, values=ValueRange(low=0, high=9, basis="tested")
    )
    now = contract(IDS, {"batch": "1", "seq": "1..64"}, values=ValueRange(low=0, high=99, basis="tested"))

    assert widen(before, now) == before


@pytest.mark.parametrize("is_without", [True, False])
def test_what_was_compared_with_another_path_of_the_model_leaves_the_one_before(is_without: bool) -> None:
    """Without its fast paths, the eager model answers otherwise: what is right beside it need not be so with them."""
    before = contract(IDS, {"batch": "1", "seq": "8"}).model_copy(update={"without_fast_paths": is_without})
    now = contract(IDS, {"batch": "1..8", "seq": "1..64"}).model_copy(update={"without_fast_paths": not is_without})

    assert widen(before, now) == before


def test_more_regions_than_a_contract_may_have_leave_the_one_before() -> None:
    before = contract(IDS, *({"batch": "1", "seq": str(2 * size)} for size in range(1, REGIONS_MAX + 1)))
    now = contract(IDS, {"batch": "1", "seq": "2"}, {"batch": "2", "seq": "1..64"})

    assert widen(before, now) == before


def test_sizes_that_were_once_answered_wrongly_stay_out() -> None:
    before = contract(IDS, {"batch": "1", "seq": "8"}, wrong=[{"batch": 1, "seq": 13}])
    now = contract(IDS, {"batch": "1", "seq": "1..64"})

    assert list_refuted_sizes(now, before) == [{"batch": 1, "seq": 13}]
    assert widen(before, now) == before


def test_a_wrong_size_of_a_later_check_refutes_a_contract_that_accepts_it() -> None:
    before = contract(IDS, {"batch": "1", "seq": "1..64"})
    now = contract({"x": ("n",)}, {"n": "8"})

    assert list_refuted_sizes(before, contract(IDS, {"batch": "1", "seq": "8"}, wrong=[{"batch": 1, "seq": 13}]))
    assert list_refuted_sizes(before, now) == []


def test_of_two_batches_the_smaller_one_is_kept() -> None:
    def batched(up_to: int, *boxes: dict[str, str]) -> Contract:
        batch = Batch(symbol="batch", up_to=up_to, inputs={"ids": 0}, outputs={"output": 0})
        return contract(IDS, *boxes, batch=batch, output=("batch",))

    before = batched(4, {"batch": "1..4", "seq": "1..8"}, {"batch": "20", "seq": "3"})
    now = batched(16, {"batch": "1..16", "seq": "1..8"}, {"batch": "1", "seq": "9"})

    widened = widen(before, now).methods["forward"]

    assert widened.batch is not None
    assert (widened.batch.up_to, len(widened.regions)) == (4, 4)


def test_an_open_contract_is_widened_by_what_it_promises() -> None:
    before = contract({"ids": (1, 8)}, is_open=True)
    now = contract(IDS, {"batch": "1..8", "seq": "8..64"}, is_open=True)

    assert widen(before, now) == now


def test_united_regions_are_those_of_both_once() -> None:
    before = contract(IDS, {"batch": "1", "seq": "8"}, {"batch": "3", "seq": "5"})
    now = contract(IDS, {"batch": "1", "seq": "8"}, {"batch": "2", "seq": "1..64"})

    assert widen(before, now).methods["forward"].regions == regions(
        {"batch": "1", "seq": "8"}, {"batch": "2", "seq": "1..64"}, {"batch": "3", "seq": "5"}
    )
