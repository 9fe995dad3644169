"""A person reads a few regions: those that are known best and are largest."""

from tracehouse.contract.regions import LISTED_MAX, Basis, Region, Span, list_regions


def region(low: int, high: int, basis: Basis) -> Region:
    return Region(spans={"batch": [Span(low=low, high=high)]}, basis=basis)


def test_few_regions_are_all_listed_the_best_known_and_largest_first() -> None:
    tested, small, large = region(1, 900, "tested"), region(2, 3, "proven"), region(10, 20, "proven")

    assert list_regions([tested, small, large]) == ([large, small, tested], "")


def test_of_many_regions_the_last_line_counts_the_others() -> None:
    proven = [region(low, 2 * low, "proven") for low in range(1, 10)]
    tested = [region(low, low, "tested") for low in range(100, 140)]
    listed, others = list_regions([*tested, *proven])

    assert listed == proven[:-LISTED_MAX:-1]
    assert others == "and 45 smaller or less sure regions: 5 proven, 40 tested"


def test_a_region_without_symbols_is_not_listed() -> None:
    assert list_regions([Region(spans={}, basis="observed")]) == ([], "")
