"""Datatypes: an input may have another datatype only if the trace with it is the same, and answers the same."""

import pytest
import torch
from torch import nn

import tracehouse

IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])
X = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
BUDGET_S = 120.0


class Looks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 4)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.table(ids) * mask.unsqueeze(-1)  # type: ignore[no-any-return]


class AsksForDatatype(Looks):
    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = super().forward(ids, mask)
        return y * 2 if ids.dtype == torch.int32 else y


class KeepsDatatype(Looks):
    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        most = torch.full(mask.shape, torch.iinfo(ids.dtype).max, dtype=ids.dtype)
        return super().forward(ids, mask * (ids < most))


class Casts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.float())  # type: ignore[no-any-return]


class TakesFloats(Casts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)  # type: ignore[no-any-return]


class AnswersInKind(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class AnswersTwice(nn.Module):
    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"p": x.softmax(-1), "best": x.argmax(-1), "ids": ids + 1}


class Joins(nn.Module):
    """What it returns has the wider of two datatypes, so it does not follow one input."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class ScalesBySize(nn.Module):
    """The trace computes the number in float32. At sizes such as 4, it is exact even so."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[-1] ** -0.5


class DoublesManyHalves(nn.Module):
    """What is right for one datatype at a size is not so for another one at a larger size."""

    def __init__(self, many: int) -> None:
        super().__init__()
        self.many = many

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.dtype == torch.float16 and x.shape[0] > self.many else x * 3


@pytest.mark.parametrize(
    ("model", "inputs", "datatypes"),
    [
        (Looks(), (IDS, MASK), {"ids": ["INT64", "INT32"], "mask": ["INT64", "INT32"]}),
        (Looks(), (IDS, MASK.bool()), {"ids": ["INT64", "INT32"], "mask": ["BOOL"]}),
        (AsksForDatatype(), (IDS, MASK), {"ids": ["INT64"], "mask": ["INT64", "INT32"]}),
        (KeepsDatatype(), (IDS, MASK), {"ids": ["INT64"], "mask": ["INT64", "INT32"]}),
        (Casts(), (X,), {"x": ["FP32", "FP64", "FP16", "BF16"]}),
        (TakesFloats(), (X,), {"x": ["FP32"]}),
        (AnswersInKind(), (X.half(),), {"x": ["FP16", "FP32", "BF16"]}),
        (AnswersInKind(), (X.bfloat16(),), {"x": ["BF16", "FP32", "FP16"]}),
        (Joins(), (X, X + 1), {"x": ["FP32", "FP64"], "y": ["FP32", "FP16", "BF16"]}),
        (ScalesBySize(), (torch.ones(2, 4),), {"x": ["FP32", "FP16", "BF16"]}),
        (DoublesManyHalves(40), (X,), {"x": ["FP32", "FP64", "BF16"]}),
        (DoublesManyHalves(5000), (X,), {"x": ["FP32", "FP64", "BF16"]}),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, nn.Module) else None,
)
def test_an_input_may_have_the_datatypes_with_which_both_answer_the_same(
    model: nn.Module, inputs: tuple[torch.Tensor, ...], datatypes: dict[str, list[str]]
) -> None:
    report = tracehouse.check(model.eval(), inputs, budget_s=BUDGET_S)
    contract = report.contract.methods["forward"]

    assert {one.name: [*map(str, one.accepted_datatypes)] for one in contract.inputs} == datatypes
    assert [one.datatypes for one in contract.inputs if len(one.accepted_datatypes) == 1] == [
        [] for one in datatypes.values() if len(one) == 1
    ]
    if len(datatypes.get("ids", [])) == 2:
        assert "ids: INT64 or INT32 [" in repr(report)


def test_an_output_has_the_datatype_of_the_input_that_it_follows() -> None:
    report = tracehouse.check(AnswersTwice().eval(), (X, IDS), budget_s=BUDGET_S)
    contract = report.contract.methods["forward"]

    assert {one.name: one.accepted_datatypes for one in contract.inputs} == {
        "x": ["FP32", "FP64", "FP16", "BF16"],
        "ids": ["INT64", "INT32"],
    }
    assert {one.name: (one.datatype, one.datatype_of) for one in contract.outputs} == {
        "output.p": ("FP32", "x"),
        "output.best": ("INT64", None),
        "output.ids": ("INT64", "ids"),
    }
    assert "→ output.p: as x [" in repr(report)
    assert "→ output.best: INT64 [" in repr(report)
