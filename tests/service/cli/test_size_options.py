"""Sizes that are wanted, as the shell writes them."""

import pytest
import typer

from service.cli import size_options


def test_dims_sizes_and_buckets_are_what_a_trace_request_takes() -> None:
    assert size_options.parse_dynamic(["ids:1=seq", "ids:0=batch", "pair.0:2=2*seq+1"]) == {
        "ids": {"1": "seq", "0": "batch"},
        "pair.0": {"2": "2*seq+1"},
    }
    assert size_options.parse_sizes(["seq=1..128", "height=8..64/8"]) == {
        "seq": {"low": 1, "high": 128, "step": 1},
        "height": {"low": 8, "high": 64, "step": 8},
    }
    assert size_options.parse_buckets("seq=16,32") == {"seq": [16, 32]}
    assert size_options.parse_buckets(None) == {}


@pytest.mark.parametrize("text", ["ids=seq", "ids:one=seq", ""])
def test_a_dim_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="ids:1=seq"):
        size_options.parse_dynamic([text])


@pytest.mark.parametrize("text", ["seq=1-128", "seq=..5", "1..5"])
def test_a_range_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"seq=1\.\.128"):
        size_options.parse_sizes([text])


@pytest.mark.parametrize("text", ["seq", "seq=16,,32", "seq=a"])
def test_buckets_that_are_none_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="seq=16,32,64"):
        size_options.parse_buckets(text)


def test_a_size_that_is_given_twice_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="of ids, the dim '1' is given twice"):
        size_options.parse_dynamic(["ids:1=seq", "ids:0=batch", "ids:1=length"])
    with pytest.raises(typer.BadParameter, match="size of 'seq' is given twice"):
        size_options.parse_sizes(["seq=1..8", "seq=16..32"])
