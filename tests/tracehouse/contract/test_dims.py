"""Dims: expressions of symbols, the sizes that shapes give them, and the expression that sizes give."""

import pytest
from pydantic import TypeAdapter, ValidationError

from tracehouse.contract.dims import Linear, SizeConflict, SymbolicShape, fit_dim, solve, solve_or_conflict
from tracehouse.contract.regions import Region, Span

SHAPE: TypeAdapter[SymbolicShape] = TypeAdapter(SymbolicShape)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("seq", "seq"),
        (" 2 * seq ", "2*seq"),
        ("past+new", "past+new"),
        ("seq-1", "seq-1"),
        ("3+seq", "seq+3"),
        ("10-seq", "-seq+10"),
        ("seq+seq", "2*seq"),
        ("a-b", "a-b"),
        (" (seq - 10) // 5", "(seq-10)//5"),
        ("(2*seq)//1", "2*seq"),
    ],
)
def test_an_expression_is_written_in_one_way(text: str, written: str) -> None:
    assert SHAPE.validate_python([text, 3]) == (written, 3)
    assert str(Linear.parse(written)) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-1",
        "7",
        "seq*2",
        "2seq",
        "seq+",
        "seq**2",
        "seq//2",
        "(seq)//0",
        "(seq)//2+1",
        "((seq)//2)//2",
        "a b-",
        "seq-seq",
        "é",
    ],
)
def test_what_is_no_sum_of_symbols_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        SHAPE.validate_python([text])


def test_each_symbol_is_found_wherever_it_stands() -> None:
    """`past+new` comes before `past` stands alone."""
    shapes = [(("past+new", "new"), (12, 5)), ((2, "2*half"), (2, 8)), (("past-1",), (6,))]
    assert solve(shapes) == {"new": 5, "past": 7, "half": 4}


def test_a_rounded_dim_follows_and_gives_no_symbol_its_size() -> None:
    """Of a convolution with a stride of 5, 20 to 24 samples leave 3 frames."""
    frames = ("(samples-5)//5",)
    assert [solve([(frames, (3,)), (("samples",), (samples,))]) for samples in (19, 20, 24, 25)] == [
        None, {"samples": 20}, {"samples": 24}, None,
    ]  # fmt: skip
    assert solve([(frames, (3,))]) is None


@pytest.mark.parametrize(
    ("shapes", "conflict"),
    [
        ([(("seq",), (7,)), (("seq",), (8,))], SizeConflict(1, 0, 7, {"seq": 7}, ((0, 0),))),
        ([(("n", "n+1"), (3, 5))], SizeConflict(0, 1, 4, {"n": 3}, ((0, 0),))),
        ([(("2*half",), (7,))], SizeConflict(0, 0, None, {}, ())),
        ([(("seq+3",), (1,))], SizeConflict(0, 0, None, {}, ())),
        ([(("n", "(n-5)//5"), (22, 4))], SizeConflict(0, 1, 3, {"n": 22}, ((0, 0),))),
        ([(("n", "(n-5)//5"), (2, 0))], SizeConflict(0, 1, None, {"n": 2}, ((0, 0),))),
        ([(("past",), (5,)), (("past+new",), (3,))], SizeConflict(1, 0, None, {"past": 5}, ((0, 0),))),
    ],
)
def test_the_first_dim_that_cannot_have_its_size_is_named(
    shapes: list[tuple[SymbolicShape, tuple[int, ...]]], conflict: SizeConflict
) -> None:
    assert solve_or_conflict(shapes) == conflict
    assert solve(shapes) is None


def test_symbols_that_stand_nowhere_alone_have_no_sizes() -> None:
    assert solve([(("past+new",), (5,))]) is None


def test_a_span_goes_in_steps() -> None:
    span = Span(low=8, high=32, step=8)
    assert [size for size in range(50) if size in span] == [8, 16, 24, 32]
    assert str(span) == "8 to 32 in steps of 8"
    assert str(Span(low=3, high=3)) == "3"
    with pytest.raises(ValidationError):
        Span(low=3, high=2)


def test_a_region_is_a_box() -> None:
    region = Region(
        spans={"batch": [Span(low=1, high=4)], "seq": [Span(low=1, high=1), Span(low=8, high=16)]}, basis="tested"
    )
    assert region.contains({"batch": 4, "seq": 8})
    assert not region.contains({"batch": 5, "seq": 8})
    assert not region.contains({"batch": 1, "seq": 2})


Seen = list[tuple[dict[str, int], int]]


@pytest.mark.parametrize(
    ("seen", "dim"),
    [
        ([({}, 7)], 7),
        ([({}, 7), ({}, 8)], None),
        ([({"n": 2}, 5), ({"n": 3}, 5)], 5),
        ([({"n": 2}, 2), ({"n": 3}, 3)], "n"),
        ([({"n": 2}, 4), ({"n": 3}, 6)], None),
        ([({"n": 2}, 4), ({"n": 3}, 6), ({"n": 9}, 18)], "2*n"),
        ([({"n": 2}, 1), ({"n": 3}, 2), ({"n": 9}, 8)], "n-1"),
        ([({"n": 2}, 8), ({"n": 3}, 7), ({"n": 9}, 1)], "-n+10"),
        ([({"n": 2}, 1), ({"n": 3}, 1), ({"n": 9}, 4)], None),
        ([({"n": 2}, 2), ({"n": 2}, 3), ({"n": 3}, 3)], None),
    ],
    ids=str,
)
def test_a_dim_is_told_from_the_sizes_that_were_seen(seen: Seen, dim: int | str | None) -> None:
    assert fit_dim(seen) == dim


@pytest.mark.parametrize(
    ("seen", "dim"),
    [
        ([({"b": 2, "n": 2}, 2), ({"b": 3, "n": 3}, 3)], None),
        ([({"b": 2, "n": 5}, 5), ({"b": 3, "n": 5}, 5)], None),
        ([({"b": 2, "n": 5}, 5), ({"b": 3, "n": 5}, 5), ({"b": 3, "n": 6}, 6)], "n"),
        ([({"b": 2, "n": 5}, 7), ({"b": 3, "n": 5}, 8), ({"b": 3, "n": 9}, 12)], "b+n"),
        ([({"b": 2, "n": 5}, 10), ({"b": 3, "n": 5}, 15), ({"b": 3, "n": 9}, 27)], None),
    ],
    ids=str,
)
def test_of_two_symbols_the_one_that_it_follows_is_told(seen: Seen, dim: int | str | None) -> None:
    """Not where they went together, nor where one of them was never another: then it might follow either."""
    assert fit_dim(seen) == dim
