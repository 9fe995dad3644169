"""Datatypes: an input may have another datatype only if the trace with it is the same, and answers the same."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tracehouse
from tracehouse.check.datatype_proof import DatatypeProver

IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])
X = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
BUDGET_S = 120.0
# What a model's module may have taken out of torch, and of Python, before it is checked.
TAKEN_DTYPE = torch.Tensor.dtype.__get__  # type: ignore[attr-defined]
TAKEN_SIZE = torch.Tensor.element_size
TAKEN_TYPE = torch.result_type
TAKEN_CAST = torch.Tensor.to
is_a = isinstance


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


class TellsWidthsOfMany(nn.Module):
    """Tells INT32 from INT64 where there are many rows."""

    MANY = 100

    def __init__(self, tell: Callable[[torch.Tensor], bool]) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 4)
        self.tell = tell

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.table(ids)
        return y * 2 if ids.shape[0] > self.MANY and self.tell(ids) else y


def _is_of_32_bits(ids: torch.Tensor) -> bool:
    return ids.dtype is torch.int32


def _is_matched(ids: torch.Tensor) -> bool:
    match ids:
        case torch.IntTensor():
            return True
    return False


def _is_matched_in_list(ids: torch.Tensor) -> bool:
    match {"ids": [ids]}:
        case {"ids": [torch.IntTensor()]}:
            return True
    return False


def _seen_by(transform: Callable[..., Any]) -> Callable[[torch.Tensor], bool]:
    """Return what asks for the datatype of a tensor that torch's transform of a function has wrapped."""

    def tell(ids: torch.Tensor) -> bool:
        seen = []

        def function(row: torch.Tensor) -> torch.Tensor:
            seen.append(row.dtype)
            return row.float()

        transform(function)(ids)
        return seen[0] is torch.int32

    return tell


@torch.jit.script
def _is_narrow_in_dict(tensors: dict[str, torch.Tensor]) -> bool:
    return tensors["ids"].dtype == torch.int32


class ConvertsMany(TellsWidthsOfMany):
    """Converts what it keeps to the datatype of many ids: a step that is none for INT64, and that no operator shows."""

    def __init__(self, convert: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__(_is_of_32_bits)
        self.convert = convert

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        kept = torch.tensor(2**32 + 1)
        return self.table(ids) * (self.convert(kept, ids) if ids.shape[0] > self.MANY else kept)


class AnswersWithMany(TellsWidthsOfMany):
    """Returns its ids, and many of them as INT64."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return ids.long() if ids.shape[0] > self.MANY else ids


class MultipliesIds(TellsWidthsOfMany):
    """The product overflows in INT32, where there are few rows."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        far = ids.long() if ids.shape[0] > self.MANY else ids
        return self.table((far * 2**28) // 2**28)


class MultipliesIntoFloats(TellsWidthsOfMany):
    """The product is made of integers, whatever it is put into."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        far = ids.long() if ids.shape[0] > self.MANY else ids
        product = torch.mul(far, 2**30, out=torch.empty(far.shape))
        return self.table(ids) + product.unsqueeze(-1)  # type: ignore[no-any-return]


class UsesMask(nn.Module):
    """Makes floats of a mask of integers in some way."""

    def __init__(self, use: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 4)
        self.use = use

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.table(ids) * self.use(mask).unsqueeze(-1)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "model",
    [
        TellsWidthsOfMany(_is_of_32_bits),
        TellsWidthsOfMany(lambda ids: torch.iinfo(ids.dtype).bits == 32),
        TellsWidthsOfMany(lambda ids: ids[0, :1].dtype is torch.int32),
        TellsWidthsOfMany(lambda ids: ids.element_size() == 4),
        TellsWidthsOfMany(lambda ids: ids.itemsize == 4),
        TellsWidthsOfMany(lambda ids: ids.type() == "torch.IntTensor"),
        TellsWidthsOfMany(lambda ids: isinstance(ids, torch.IntTensor)),
        TellsWidthsOfMany(lambda ids: torch.result_type(ids, 1) is torch.int32),
        TellsWidthsOfMany(lambda ids: ids.new_tensor([1]).dtype is torch.int32),
        TellsWidthsOfMany(lambda ids: torch.zeros_like(ids).dtype is torch.int32),
        TellsWidthsOfMany(lambda ids: ids.data.dtype is torch.int32),
        TellsWidthsOfMany(lambda ids: ids.view(torch.uint8).shape[1] == 4 * ids.shape[1]),
        TellsWidthsOfMany(lambda ids: "int32" in repr(ids)),
        TellsWidthsOfMany(lambda ids: "int32" in f"{ids}"),
        ConvertsMany(lambda kept, ids: kept.to(ids)),
        ConvertsMany(lambda kept, ids: kept.type_as(ids)),
        AnswersWithMany(_is_of_32_bits),
        MultipliesIds(_is_of_32_bits),
        TellsWidthsOfMany(lambda ids: TAKEN_DTYPE(ids) is torch.int32),
        TellsWidthsOfMany(lambda ids: torch._C.TensorBase.dtype.__get__(ids) is torch.int32),  # type: ignore[attr-defined]
        TellsWidthsOfMany(lambda ids: TAKEN_SIZE(ids) == 4),
        TellsWidthsOfMany(lambda ids: TAKEN_TYPE(ids, 1) is torch.int32),
        TellsWidthsOfMany(lambda ids: torch.ops.prim.dtype(ids) == 3),
        TellsWidthsOfMany(lambda ids: torch.ops.aten.element_size(ids) == 4),
        TellsWidthsOfMany(lambda ids: is_a(ids, torch.IntTensor)),
        TellsWidthsOfMany(_is_matched),
        TellsWidthsOfMany(_is_matched_in_list),
        TellsWidthsOfMany(_seen_by(torch.vmap)),
        TellsWidthsOfMany(_seen_by(torch.func.functionalize)),
        TellsWidthsOfMany(lambda ids: _is_narrow_in_dict({"ids": ids})),
        TellsWidthsOfMany(lambda ids: ids.view(torch.int32).shape[1] == ids.shape[1]),
        ConvertsMany(TAKEN_CAST),
        ConvertsMany(torch.ops.aten.to.other),
        ConvertsMany(torch.ops.aten.type_as),
        MultipliesIntoFloats(_is_of_32_bits),
    ],
)
def test_a_width_that_is_told_at_other_sizes_is_not_accepted(model: nn.Module) -> None:
    report = tracehouse.check(model.eval(), (IDS,), budget_s=BUDGET_S, strict=False)

    [ids] = report.contract.methods["forward"].inputs
    assert ids.accepted_datatypes == ["INT64"]


class Attends(nn.Module):
    """Has a layer that goes another way where a tensor has functions of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.layer(self.table(ids), src_key_padding_mask=mask == 0)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "model",
    [
        Looks(),
        Attends(),
        UsesMask(lambda mask: 1.0 - mask[:, None].to(torch.float32)[:, 0]),
        UsesMask(lambda mask: (torch.arange(mask.shape[1]) < mask.sum(1)[:, None]).float()),
        UsesMask(lambda mask: (torch.arange(mask.shape[1]) < mask[:, :1]).float()),
        UsesMask(lambda mask: (mask != 0).int().cumsum(1).float()),
        UsesMask(lambda mask: torch.zeros(mask.shape).add_(mask)),
        UsesMask(lambda mask: torch.arange(9.0)[mask]),
        UsesMask(lambda mask: torch.arange(9.0)[mask.clamp(0, 1).masked_fill(mask > 5, 0)]),
        UsesMask(lambda mask: F.pad(mask, (1, 0), value=1)[:, 1:].float()),
        UsesMask(lambda mask: torch.zeros_like(mask).float() + mask.max()),
    ],
)
def test_what_does_not_tell_widths_is_proven_once(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise AssertionError("another proof, with another datatype")

    monkeypatch.setattr(DatatypeProver, "holds", refuse)
    report = tracehouse.check(model.eval(), (IDS, MASK), budget_s=BUDGET_S, strict=False)

    contract = report.contract.methods["forward"]
    assert {one.name: one.accepted_datatypes for one in contract.inputs} == {
        "ids": ["INT64", "INT32"],
        "mask": ["INT64", "INT32"],
    }


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
