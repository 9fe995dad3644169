"""The orders of keys that a live check finds to be part of the contract."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracehouse

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

X, Y = torch.tensor([3.0]), torch.tensor([3.0])  # alike: on the example alone, no order matters
STEPS = {"mul": 2, "add": 3}


def by_key(d: Any) -> torch.Tensor:
    return d["a"] - 2 * d["b"]


def by_order(d: Any) -> torch.Tensor:
    first, second = d.values()
    return first - 2 * second


def by_middle(d: Any) -> torch.Tensor:
    return 2 * list(d.values())[1]


def by_order_of_both(d: Any, e: Any) -> torch.Tensor:
    """Answers alike if both dicts are reversed."""
    return sum(one * other for one, other in zip(d.values(), e.values(), strict=True))


def by_order_of_keywords(**others: torch.Tensor) -> torch.Tensor:
    return torch.stack(list(others.values()))


def by_order_of_numbers(x: torch.Tensor, steps: dict[str, int]) -> torch.Tensor:
    for step, number in steps.items():
        x = x + number if step == "add" else x * number
    return x


def by_order_of_a_default(x: torch.Tensor, steps: dict[str, int] = STEPS) -> torch.Tensor:
    return by_order_of_numbers(x, steps)


def in_a_list(ds: list[dict[str, torch.Tensor]]) -> torch.Tensor:
    return by_order(ds[0]) + by_key(ds[1])


def in_a_dict(outer: dict[str, dict[str, torch.Tensor]]) -> torch.Tensor:
    return by_order(outer["one"]) + by_key(outer["other"])


def that_needs_its_order(d: dict[str, torch.Tensor]) -> torch.Tensor:
    if next(iter(d)) != "a":
        raise ValueError("a comes first")
    return by_key(d)


D = {"a": X, "b": Y}


@pytest.mark.parametrize(
    ("model", "args", "kwargs", "fixed"),
    [
        (by_key, (D,), {}, {}),
        (by_order, (D,), {}, {"d": ["a", "b"]}),
        (by_order, (OrderedDict(b=Y, a=X),), {}, {"d": ["b", "a"]}),
        (by_middle, ({"a": X, "b": Y, "c": X},), {}, {"d": ["a", "b", "c"]}),
        (by_order_of_both, (D, D), {}, {"d": ["a", "b"], "e": ["a", "b"]}),
        (by_order_of_keywords, (), {"u": X, "v": Y}, {"**": ["u", "v"]}),
        (by_order_of_numbers, (X, STEPS), {}, {"steps": ["mul", "add"]}),
        (by_order_of_a_default, (X,), {}, {"steps": ["mul", "add"]}),
        (in_a_list, ([D, D],), {}, {"ds.0": ["a", "b"]}),
        (in_a_dict, ({"one": D, "other": D},), {}, {"outer.one": ["a", "b"]}),
        (that_needs_its_order, (D,), {}, {"d": ["a", "b"]}),
    ],
)
def test_an_order_is_fixed_if_the_models_answer_depends_on_it(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], fixed: dict[str, list[str]]
) -> None:
    report = tracehouse.check(model, args, example_kwarg_inputs=kwargs)

    assert report.verdict == "verified"
    assert report.contract.methods["forward"].key_orders == fixed
    found = [one.evidence["path"] for one in report.findings if one.kind == "dict-order-fixed"]
    assert sorted(found) == sorted(fixed)


def test_the_text_and_the_page_name_the_order() -> None:
    report = tracehouse.check(by_order, (D,))

    assert "the keys of 'd' in this order: a, b" in repr(report)
    assert "in the order b, a, 'output' changes" in repr(report).replace("\n        ", " ")
    assert "Keys in their order" in report.html()
