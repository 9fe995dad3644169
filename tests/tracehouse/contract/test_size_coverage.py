"""How many of the sizes that a request wants are covered, and the first that is not."""

import random
from itertools import product

import pytest

from tests.contracts import Shape, contract, span
from tracehouse.contract.contract import Contract
from tracehouse.contract.regions import REGIONS_MAX
from tracehouse.contract.size_coverage import COUNT_MAX, SizeCoverage, cover_sizes

IDS: dict[str, Shape] = {"ids": ("batch", "seq")}
DYNAMIC = {"ids": {"0": "batch", "1": "seq"}}


def coverage_of(*contracts: Contract, dynamic: dict[str, dict[str, str]] = DYNAMIC, **sizes: str) -> SizeCoverage:
    [covered] = cover_sizes(contracts, {"forward": dynamic}, {symbol: [span(text)] for symbol, text in sizes.items()})
    return covered


def test_a_contract_that_accepts_all_sizes_is_complete() -> None:
    covered = coverage_of(contract(IDS, {"batch": "1..8", "seq": "1..512"}), batch="1..8", seq="1..128")

    assert covered == SizeCoverage(method="forward", requested=1024, covered=1024)
    assert covered.is_complete
    assert str(covered) == "1024 of 1024 sizes of forward"


def test_regions_that_overlap_count_once_and_the_first_size_that_is_missing_is_named() -> None:
    accepts = contract(IDS, {"batch": "1..4", "seq": "1..60"}, {"batch": "1..8", "seq": "40..100"})
    covered = coverage_of(accepts, batch="1..8", seq="1..128")

    assert (covered.requested, covered.covered) == (8 * 128, 4 * 60 + 8 * 61 - 4 * 21)
    assert covered.missing == {"batch": 1, "seq": 101}
    assert "101" in (covered.reason or "")
    assert not covered.is_complete


@pytest.mark.parametrize("seed", range(20))
def test_the_count_is_that_of_counting_one_by_one(seed: int) -> None:
    rng = random.Random(seed)

    def some() -> str:
        low = rng.randint(1, 9)
        return f"{low}..{rng.randint(low, 12)}..{rng.randint(1, 3)}"

    accepts = contract(IDS, *({"batch": f"{some()} {some()}", "seq": some()} for _ in range(rng.randint(1, 4))))
    wanted = {"batch": span(some()), "seq": span(some())}
    sizes = [range(one.low, one.high + 1, one.step) for one in wanted.values()]
    every = [dict(zip(wanted, combination, strict=True)) for combination in product(*sizes)]
    regions = accepts.methods["forward"].regions
    missing = [one for one in every if not any(region.contains(one) for region in regions)]

    [covered] = cover_sizes([accepts], {"forward": DYNAMIC}, {symbol: [one] for symbol, one in wanted.items()})

    assert (covered.requested, covered.covered) == (len(every), len(every) - len(missing))
    assert covered.missing == (missing[0] if missing else {})


def test_trillions_of_sizes_are_counted_without_looking_at_each() -> None:
    large = f"1..{2**40}"
    accepts = contract({"ids": ("seq",)}, {"seq": f"1..{2**40}..2"}, {"seq": f"2..{2**39}..2"})
    covered = coverage_of(accepts, dynamic={"ids": {"0": "seq"}}, seq=large)

    assert (covered.requested, covered.covered, covered.exact) == (2**40, 2**39 + 2**38, True)
    assert covered.missing == {"seq": 2**39 + 2}


def test_a_number_too_large_for_json_is_a_least_one() -> None:
    covered = coverage_of(contract(IDS, {"batch": "1", "seq": "8"}), batch=f"1..{2**48}", seq=f"1..{2**48}")

    assert (covered.requested, covered.covered, covered.exact) == (COUNT_MAX, 1, False)
    assert str(covered).startswith("at least 1 of at least ")


def test_regions_that_are_too_many_to_count_exactly_give_a_least_number() -> None:
    boxes = [
        {"seq": " ".join(f"{number}..{10**9}..{step}" for number, step in enumerate(range(97 + place, 113 + place)))}
        for place in range(REGIONS_MAX)
    ]
    covered = coverage_of(contract({"ids": ("seq",)}, *boxes), dynamic={"ids": {"0": "seq"}}, seq=f"1..{10**9}")

    assert not covered.exact
    assert not covered.is_complete
    assert covered.missing == {}


def test_a_dim_that_stays_fixed_covers_its_own_size_and_says_why() -> None:
    fixed = contract({"ids": ("batch", 16)}, {"batch": "1..8"})
    covered = coverage_of(fixed, seq="1..128")

    assert (covered.requested, covered.covered, covered.missing) == (128, 1, {"seq": 1})
    assert "dim 1 must be 16, because no other size was tried there" in (covered.reason or "")


def test_a_symbol_without_wanted_sizes_has_the_examples() -> None:
    accepts = contract(IDS, {"batch": "2..8", "seq": "1..64"}, {"batch": "3", "seq": "65..128"})

    assert coverage_of(accepts, seq="1..128").covered == 64


def test_a_declared_expression_is_followed_to_the_contracts_own_symbol() -> None:
    accepts = contract({"ids": ("n",)}, {"n": "2..100..2"})
    covered = coverage_of(accepts, dynamic={"ids": {"0": "2*half"}}, half="1..60")

    assert (covered.covered, covered.missing) == (50, {"half": 51})


def test_all_buckets_count_together() -> None:
    buckets = [contract({"ids": ("batch", size)}, {"batch": "1..8"}) for size in (16, 32)]
    covered = coverage_of(*buckets, batch="1..8", seq="16..48..16")

    assert (covered.requested, covered.covered, covered.missing) == (24, 16, {"batch": 1, "seq": 48})


def test_a_symbol_that_the_contract_does_not_have_is_not_covered() -> None:
    covered = coverage_of(contract({"ids": (4, 16)}), dynamic={}, seq="1..8")

    assert (covered.requested, covered.covered, covered.missing) == (8, 0, {"seq": 1})
    assert "declare it in `dynamic`" in (covered.reason or "")


def test_without_wanted_sizes_nothing_is_counted() -> None:
    assert cover_sizes([contract(IDS, {"batch": "1", "seq": "8"})], {"forward": DYNAMIC}, {}) == []
