"""Comparing outputs: every leaf, its place, dtype, shape and values."""

from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch

from tracehouse.torch_values.compare import compare

NAN, INF = float("nan"), float("inf")


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


def t(*values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


@pytest.mark.parametrize(
    ("eager", "artifact"),
    [
        (t(1.0), t(1.0)),
        (t(NAN, INF, -INF, 0.0), t(NAN, INF, -INF, 0.0)),
        (t(1.0, 1000.0), t(1.001, 1000.0)),  # small beside the largest
        (Pair(t(1.0), t(2.0)), (t(1.0), t(2.0))),
        (OrderedDict(a=t(1.0), b=t(2.0)), {"b": t(2.0), "a": t(1.0)}),
        ([t(1.0), (t(2.0),)], [t(1.0), (t(2.0),)]),
        (torch.ones(0, 3), torch.ones(0, 3)),
        (t(1.0, dtype=torch.float16), t(1.001, dtype=torch.float16)),
        (t(1.0, dtype=torch.bfloat16), t(1.0078125, dtype=torch.bfloat16)),
        (t(2**63 - 1, dtype=torch.int64), t(2**63 - 1, dtype=torch.int64)),
        (t(5).to(torch.uint32), t(5).to(torch.uint32)),
    ],
)
def test_what_agrees(eager: Any, artifact: Any) -> None:
    assert compare(eager, artifact, 1e-5).agrees


@pytest.mark.parametrize(
    ("eager", "artifact", "leaf"),
    [
        (t(1.0), t(1.0001), "output"),
        (t(1.0), t(1.0, dtype=torch.float64), "output"),
        (t(1.0), torch.ones(1, 1), "output"),
        (t(1.0), (t(1.0),), "output"),
        ((t(1.0), t(2.0)), [t(1.0), t(2.0)], "output"),
        ((t(1.0), t(2.0)), (t(1.0),), "output"),
        ((t(1.0), (t(2.0), t(3.0))), (t(1.0), (t(2.0), t(4.0))), "output.1.1"),
        ({"a": t(1.0)}, {"b": t(1.0)}, "output"),
        ({"a": [t(1.0)]}, {"a": [t(NAN)]}, "output.a.0"),
        (t(NAN, 1.0), t(1.0, NAN), "output"),
        (t(INF), t(-INF), "output"),
        (t(INF), t(3e38), "output"),
        (t(1, dtype=torch.int64), t(2, dtype=torch.int64), "output"),
        (t(2**63 - 1, dtype=torch.int64), t(2**63 - 2, dtype=torch.int64), "output"),
        (t(True, dtype=torch.bool), t(False, dtype=torch.bool), "output"),
        (t(5).to(torch.uint64), t(6).to(torch.uint64), "output"),
        (t(1.0, dtype=torch.bfloat16), t(1.1, dtype=torch.bfloat16), "output"),
    ],
)
def test_what_differs(eager: Any, artifact: Any, leaf: str) -> None:
    difference = compare(eager, artifact, 1e-5).difference

    assert difference is not None
    assert difference.leaf == leaf


def test_the_largest_difference_is_over_all_leaves_and_shown_where_it_is() -> None:
    compared = compare(
        (t(1.0), torch.tensor([[1.0, 2.0], [3.0, 4.0]])), (t(1.0), torch.tensor([[1.0, 2.5], [1.0, 4.0]])), 1e-5
    )

    assert compared.largest == 2.0
    assert compared.difference is not None
    assert (compared.difference.index, compared.difference.eager, compared.difference.artifact) == ([1, 0], 3.0, 1.0)


def test_a_difference_within_the_tolerance_is_still_measured() -> None:
    compared = compare(t(1.0), t(1.5), 0.5)

    assert (compared.agrees, compared.largest) == (True, 0.5)


def test_what_cannot_be_subtracted_has_no_largest_difference() -> None:
    assert compare(t(1.0), t(NAN), 1e-5).largest is None
    assert compare(t(1.0), (t(1.0),), 1e-5).largest is None


def test_a_number_that_json_lacks_is_named() -> None:
    difference = compare(t(1.0), t(NAN), 1e-5).difference

    assert difference is not None
    assert difference.artifact == "NaN"
