"""Known layouts: what an operator gives the second time is laid out as torch laid it out the first time."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tracehouse.check.prove.known_layouts import KnownLayouts
from tracehouse.check.prove.symbols import Symbols, expression_of, run_without_values
from tracehouse.check.prove.tensor_memory import storage_of

aten = torch.ops.aten


class Setting:
    """Known layouts of some symbols, and how often torch had to work a layout out."""

    def __init__(self) -> None:
        self.symbols = Symbols({"batch": 3, "length": 8}, {"batch": 64, "length": 64})
        self.layouts = KnownLayouts(self.symbols.mode)
        self.worked_out = 0

    def input(self, *shape: int | str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return self.symbols.empty(shape, torch.empty(0, dtype=dtype))

    def run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        with run_without_values(self.symbols.mode):
            return self.layouts.run(func, args, kwargs, self._work_out)

    def _work_out(self, func: Any, args: Any, kwargs: Any) -> Any:
        self.worked_out += 1
        return func(*args, **kwargs)


@pytest.fixture
def setting() -> Setting:
    return Setting()


def layout(tensor: torch.Tensor) -> list[object]:
    numbers = [*tensor.shape, *tensor.stride(), tensor.storage_offset()]
    return [tensor.dtype, tensor.device, *(one if isinstance(one, int) else expression_of(one) for one in numbers)]


Call = Callable[[Setting], tuple[Any, ...]]
CALLS: dict[str, Call] = {
    "a sum": lambda s: (aten.add.Tensor, s.input("batch", "length", 4), s.input("length", 4)),
    "a sum with a size": lambda s: (aten.add.Tensor, s.input("batch", 4), s.input("batch", 4).shape[0]),
    "a product of transposed tensors": lambda s: (aten.mul.Tensor, s.input("batch", "length").t(), 2.0),
    "a product of matrices": lambda s: (aten.mm.default, s.input("length", "batch").t(), s.input("length", 5)),
    "several results": lambda s: (aten.max.dim, s.input("batch", "length", 4), 1),
    "a comparison": lambda s: (aten.gt.Scalar, s.input("batch", "length"), 0),
    "one size is 1": lambda s: (aten.mul.Tensor, s.input(1, "length", 4).transpose(0, 1), 2.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_second_result_is_laid_out_as_the_first_one(setting: Setting, name: str) -> None:
    with run_without_values(setting.symbols.mode):
        func, *args = CALLS[name](setting)

    first, second = (setting.run(func, *args) for _ in range(2))

    assert type(first) is type(second) or isinstance(first, torch.Tensor)
    results = [[one] if isinstance(one, torch.Tensor) else [*one] for one in (first, second)]
    assert [layout(one) for one in results[1]] == [layout(one) for one in results[0]]
    assert setting.worked_out == 1
    assert not {storage_of(one) for one in results[0]} & {storage_of(one) for one in results[1]}


def test_other_operands_are_worked_out_anew(setting: Setting) -> None:
    tensor = setting.input("batch", "length")
    calls = [
        (aten.mul.Tensor, tensor, 2),
        (aten.mul.Tensor, tensor, 2.0),
        (aten.mul.Tensor, tensor, True),
        (aten.mul.Tensor, setting.input("length", "batch"), 2),
        (aten.mul.Tensor, setting.input("batch", "length", dtype=torch.int64), 2),
        (aten.mul.Tensor, setting.input(3, 8), 2),
        (aten.mul.Tensor, tensor, tensor.shape[0]),
        (aten.mul.Tensor, tensor, tensor.shape[1]),
    ]

    for func, *args in calls:
        setting.run(func, *args)

    assert setting.worked_out == len(calls)


@pytest.mark.parametrize(
    ("func", "given"),
    [
        (aten.transpose.int, (0, 1)),
        (aten.slice.Tensor, (1, 1, 5)),
        (aten.unsqueeze.default, (0,)),
        (aten.split.Tensor, (2, 1)),
        (aten.view.default, ([-1],)),
    ],
    ids=["transpose", "slice", "unsqueeze", "split", "view"],
)
def test_a_view_lies_in_the_memory_of_its_operand_each_time(
    setting: Setting, func: Any, given: tuple[Any, ...]
) -> None:
    tensors = [setting.input("batch", 8) for _ in range(2)]

    views = [setting.run(func, tensor, *given) for tensor in tensors]

    flat = [[one] if isinstance(one, torch.Tensor) else [*one] for one in views]
    assert setting.worked_out == 1
    assert [layout(one) for one in flat[1]] == [layout(one) for one in flat[0]]
    assert [{storage_of(view) for view in of_one} for of_one in flat] == [{storage_of(tensor)} for tensor in tensors]


def test_an_operator_that_writes_gives_its_operand_back(setting: Setting) -> None:
    tensor, other = setting.input("batch"), setting.input("batch")

    assert setting.run(aten.add_.Tensor, tensor, 1) is tensor
    assert setting.run(aten.add_.Tensor, other, 1) is other
    assert setting.worked_out == 1


def test_a_result_in_a_memory_of_its_own_is_known_wherever_its_operand_begins(setting: Setting) -> None:
    tensor = setting.input("batch", 8)
    with run_without_values(setting.symbols.mode):
        columns = [tensor[:, place] for place in range(3)]

    products = [setting.run(aten.mul.Tensor, column, 2) for column in columns]
    views = [setting.run(aten.unsqueeze.default, column, 0) for column in columns]

    assert {one.storage_offset() for one in products} == {0}
    assert [one.storage_offset() for one in views] == [0, 1, 2]
    assert setting.worked_out == 1 + len(columns)


def test_an_operand_that_got_another_layout_is_worked_out_anew(setting: Setting) -> None:
    results = []
    for _ in range(2):
        out = setting.input(0)
        with warnings.catch_warnings(action="ignore"):  # torch warns that the result does not fit
            results.append(setting.run(aten.mul.out, setting.input("batch"), setting.input("batch"), out=out))

    assert [layout(one) for one in results] == [layout(setting.input("batch"))] * 2
