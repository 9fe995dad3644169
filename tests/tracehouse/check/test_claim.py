"""The claim: what was proven and what was tried become regions of sizes, and the rest is fixed."""

from tracehouse.check.claim import ComparedSizes, find_contradicted, make_claim
from tracehouse.check.size_groups import Groups
from tracehouse.contract.contract import Batch
from tracehouse.contract.regions import Region, Span

GROUPS = Groups(
    shapes={"ids": ("batch", "seq"), "mask": ("batch", 1, "past+seq"), "past": ("past", 4)},
    example={"batch": 2, "seq": 5, "past": 3},
    fixed={"mask": {"1": "model"}, "past": {"1": "model"}},
)


def tried(agrees: bool, **sizes: int) -> ComparedSizes:
    return ComparedSizes({**GROUPS.example, **sizes}, agrees)


def proven(**spans: tuple[int, int]) -> Region:
    boxes = {"batch": (2, 2), "seq": (5, 5), "past": (3, 3), **spans}
    return Region(spans={name: [Span(low=low, high=high)] for name, (low, high) in boxes.items()}, basis="proven")


def test_a_proven_region_is_claimed() -> None:
    said = make_claim(GROUPS, [], [proven(batch=(1, 9), seq=(1, 64), past=(0, 10))])

    assert said.shapes == GROUPS.shapes
    assert [str(region) for region in said.regions] == ["batch 1 to 9, seq 1 to 64, past 0 to 10"]


def test_what_was_tried_alone_is_claimed_size_by_size() -> None:
    said = make_claim(GROUPS, [tried(True, batch=batch) for batch in (1, 3, 4, 17)], [])

    assert said.shapes["ids"] == ("batch", 5)
    assert said.fixed["ids"] == {"1": "untried"}
    assert [(str(region), region.basis) for region in said.regions] == [("batch 1 or 3 to 4 or 17", "tested")]


def test_a_symbol_that_differs_elsewhere_is_fixed_by_the_trace_and_taken_out_of_sums() -> None:
    said = make_claim(GROUPS, [tried(False, past=4), tried(False, past=1), tried(True, seq=6)], [])

    assert said.shapes["mask"] == (2, 1, "seq+3")
    assert said.fixed["past"] == {"0": "trace", "1": "model"}
    assert said.fixed["mask"] == {"0": "untried", "1": "model"}


def test_a_region_in_which_a_call_differs_is_void() -> None:
    region = proven(batch=(1, 9), seq=(1, 64))
    differing = tried(False, seq=7)

    assert find_contradicted([region], [differing]) == [(region, differing)]
    assert make_claim(GROUPS, [differing, tried(True, seq=6)], [region]).shapes["ids"] == (2, "seq")


def test_sizes_that_were_tried_together_stay_together() -> None:
    said = make_claim(GROUPS, [tried(True, batch=1, seq=1), tried(True, batch=3), tried(True, seq=4)], [])

    assert sorted(str(region) for region in said.regions) == ["batch 1, seq 1", "batch 2, seq 4", "batch 3, seq 5"]


def test_a_certificate_of_a_closed_batch_is_not_claimed() -> None:
    batch = Batch(symbol="batch", up_to=8, inputs={"ids": 0}, outputs={"output": 0})

    assert make_claim(GROUPS, [tried(True, seq=4)], [], batch=batch).batch is None
    assert make_claim(GROUPS, [tried(True, batch=4)], [], batch=batch).batch == batch
