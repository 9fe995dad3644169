"""Layout trials: what a model reads of its inputs besides size, datatype, device and values is found and named."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import tracehouse
from tracehouse.check.inputs.layouts import LayoutCase, vary_layouts
from tracehouse.check.probe import probing
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

IMAGE = torch.linspace(-1, 1, 2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
CHANNELS_LAST = IMAGE.to(memory_format=torch.channels_last)


def check(model: Callable[..., torch.Tensor], x: torch.Tensor = IMAGE, **given: object) -> tracehouse.Report:
    return tracehouse.check(model, x, budget_s=4, **given)  # type: ignore[arg-type]


def finding_of(report: tracehouse.Report, kind: str) -> Finding:
    return next(one for one in report.findings if one.kind == kind)


def by_contiguity(x: torch.Tensor) -> torch.Tensor:
    return x * (2 if x.is_contiguous() else 3)


def by_channels_last(x: torch.Tensor) -> torch.Tensor:
    return x * (2 if x.is_contiguous(memory_format=torch.channels_last) else 3)


def by_offset(x: torch.Tensor) -> torch.Tensor:
    return x * (2 if x.storage_offset() else 3)


def by_stride_of_a_result(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return x * y.stride()[-1]


def by_zero_strides(x: torch.Tensor) -> torch.Tensor:
    return x * (2 if 0 in x.stride() else 3)


def by_being_a_view(x: torch.Tensor) -> torch.Tensor:
    return x * (2 if x._is_view() else 3)


def by_base(x: torch.Tensor) -> torch.Tensor:
    return x * (2 if x._base is not None else 3)


def by_pending_negation(x: torch.Tensor) -> torch.Tensor:
    return x * (2 if x.is_neg() else 3)


def by_an_error_of_view(x: torch.Tensor) -> torch.Tensor:
    try:
        return x.detach().view(-1) * 2
    except RuntimeError:
        return x.reshape(-1) * 3


def by_last_bits(x: torch.Tensor) -> torch.Tensor:
    return x * (1.0 if x.is_contiguous() else 1.0000005)


def by_requires_grad(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.requires_grad else x


def by_history(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.grad_fn is not None else x


def by_being_a_leaf(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.is_leaf else x


def by_gradient_mode(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.is_grad_enabled() else x


def by_class(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if type(x) is nn.Parameter else x


def by_strides_alone(x: torch.Tensor) -> torch.Tensor:
    return x.as_strided((2,), (1,)) * 1.0


@pytest.mark.parametrize(
    ("model", "read"),
    [
        (by_contiguity, "Tensor.is_contiguous()"),
        (by_channels_last, "Tensor.is_contiguous()"),
        (by_offset, "Tensor.storage_offset()"),
        (by_stride_of_a_result, "Tensor.stride()"),
        (by_zero_strides, "Tensor.stride()"),
        (by_being_a_view, "Tensor._is_view()"),
        (by_base, "Tensor._base"),
        (by_pending_negation, "Tensor.is_neg()"),
        (by_an_error_of_view, "Tensor.view()"),
        (by_last_bits, "Tensor.is_contiguous()"),
    ],
)
def test_answers_that_follow_the_layout_are_found_with_the_line(
    model: Callable[[torch.Tensor], torch.Tensor], read: str
) -> None:
    found = finding_of(check(model), "layout-differs")

    assert found.evidence["read"] == read
    assert found.source is not None
    assert read.removeprefix("Tensor.").removesuffix("()") in found.source
    assert found.confirmed


@pytest.mark.parametrize(
    ("model", "read"),
    [
        (by_requires_grad, "Tensor.requires_grad"),
        (by_history, "Tensor.grad_fn"),
        (by_being_a_leaf, "Tensor.is_leaf"),
        (by_gradient_mode, "torch.is_grad_enabled"),
    ],
)
def test_answers_that_follow_gradients_are_found_with_the_line(
    model: Callable[[torch.Tensor], torch.Tensor], read: str
) -> None:
    report = check(model)
    [found] = [one for one in report.findings if one.kind == "gradient-mode-differs"]

    assert found.evidence["read"] == read
    assert found.source is not None
    assert read.split(".")[1] in found.source
    assert report.verdict is Verdict.VERIFIED


@pytest.mark.parametrize(("model", "kind"), [(by_class, "gradient-mode-differs"), (by_strides_alone, "layout-differs")])
def test_no_line_is_blamed_where_none_is_seen_to_read(model: Callable[[torch.Tensor], torch.Tensor], kind: str) -> None:
    assert finding_of(check(model), kind).line is None


def test_an_artifact_that_is_right_for_contiguous_inputs_is_verified() -> None:
    report = check(by_contiguity)

    assert report.verdict is Verdict.VERIFIED
    assert torch.equal(report.artifact(IMAGE), by_contiguity(IMAGE))


class Right(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_contiguous():
            x = x.contiguous()
        return self.layers(x).flatten(1).softmax(-1)  # type: ignore[no-any-return]


def test_rounding_by_layout_is_no_finding() -> None:
    report = check(Right().eval())

    assert not {"layout-differs", "gradient-mode-differs"} & {one.kind for one in report.findings}


def test_a_model_that_refuses_a_layout_has_no_finding_of_it() -> None:
    report = check(lambda x: x.view(-1) * 2)

    assert "layout-differs" not in {one.kind for one in report.findings}


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (by_contiguity, CHANNELS_LAST),
        (by_offset, torch.cat([IMAGE, IMAGE])[2:]),
        (by_zero_strides, IMAGE[:1].expand(2, 3, 4, 5)),
        (by_requires_grad, IMAGE.clone().requires_grad_()),
        (by_history, IMAGE.clone().requires_grad_() * 1),
        (by_class, nn.Parameter(IMAGE.clone())),
    ],
)
def test_an_example_whose_layout_changes_the_answer_restricts_the_artifact(
    model: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> None:
    report = check(model, x)
    plain = x.detach().clone(memory_format=torch.contiguous_format)

    assert report.verdict is Verdict.RESTRICTED
    assert "example" in str(finding_of(report, "layout-not-covered").evidence["case"])
    assert torch.equal(report.artifact(plain), model(plain))


def test_a_sample_whose_layout_changes_the_answer_restricts_the_artifact() -> None:
    report = check(by_contiguity, samples=[(IMAGE + 1,), (CHANNELS_LAST,)])

    assert report.verdict is Verdict.RESTRICTED
    assert finding_of(report, "layout-not-covered").evidence["cases"] == ["samples[1], laid out as it was handed in"]


def test_an_example_in_a_layout_that_changes_nothing_is_verified() -> None:
    report = check(Right().eval(), CHANNELS_LAST.clone().requires_grad_())

    assert report.verdict is Verdict.VERIFIED


def test_an_error_on_the_contiguous_copy_says_that_it_is_one() -> None:
    with pytest.raises(ModelRaised) as raised:
        check(lambda x: x.permute(0, 2, 3, 1).view(-1), CHANNELS_LAST)

    assert "contiguous copies" in raised.value.__notes__[0]


class ReadsDeep(nn.Module):
    """It halves an image five times, and reads the layout of what is left."""

    def __init__(self, reads: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.convs = nn.Sequential(*[nn.Conv2d(3, 3, 3, stride=2, padding=1) for _ in range(5)])
        self.reads = reads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.reads(self.convs(x)).mean((2, 3))


@pytest.mark.parametrize("reads", [by_contiguity, by_channels_last])
def test_a_layout_that_is_read_deep_in_a_large_image_is_found_on_a_smaller_one(
    reads: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    report = tracehouse.check(ReadsDeep(reads).eval(), torch.randn(1, 3, 160, 192), budget_s=12)

    assert finding_of(report, "layout-differs").evidence["read"] == "Tensor.is_contiguous()"


def test_layouts_are_varied_on_the_smaller_sizes_that_a_proof_has_shown_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    varied: list[tuple[int, ...]] = []

    def note(example: Call) -> Iterator[LayoutCase]:
        varied.extend(tuple(tensor.shape) for tensor in example.tensors.values())
        return vary_layouts(example)

    monkeypatch.setattr(probing, "vary_layouts", note)
    for size in (160, 80):
        tracehouse.check(nn.Conv2d(3, 4, 3).eval(), torch.randn(1, 3, size, size), budget_s=30)
    tracehouse.check(nn.Sequential(nn.Flatten(), nn.Linear(160, 2)).eval(), torch.randn(1, 160), budget_s=30)

    assert varied == [(1, 3, 96, 96), (1, 3, 80, 80), (1, 160)]
