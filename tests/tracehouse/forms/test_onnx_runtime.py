"""The form of ONNX Runtime: it answers as torch does, for all sizes of a contract and all usual values."""

import subprocess
import sys
from importlib.util import find_spec
from io import BytesIO
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.tracehouse.forms.racing import FLOAT_MAX, TOLERANCE, calls_of
from tests.tracehouse.forms.test_finite import Compute
from tracehouse.forms import raced
from tracehouse.spec.raced_form import RacedForm
from tracehouse.torch_values.compare import compare

if find_spec("onnxruntime") is None:
    pytest.skip("onnxruntime is not installed", allow_module_level=True)

PICTURES, WORDS = torch.randn(2, 4, 9, 11), torch.randn(2, 5, 16)


class Computes(nn.Module):
    def __init__(self, compute: Compute, part: nn.Module | None = None) -> None:
        super().__init__()
        self.compute, self.part = compute, part

    def forward(self, x: torch.Tensor) -> Any:
        return self.compute(self.part, x)


def archive(compute: Compute, part: nn.Module | None, example: torch.Tensor) -> torch.jit.ScriptModule:
    file = BytesIO()
    torch.jit.save(torch.jit.trace(Computes(compute, part).eval(), example, check_trace=False), file)
    file.seek(0)
    loaded: torch.jit.ScriptModule = torch.jit.load(file)
    return loaded


def call(part: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return part(x)  # type: ignore[no-any-return]


def values_of(*shape: int) -> list[torch.Tensor]:
    """Return inputs as they come, and usual ones at which fast code is known to answer otherwise."""
    torch.manual_seed(0)
    drawn = torch.randn(shape)
    return [drawn * 3, drawn.sign() * FLOAT_MAX, drawn * 1e-39, torch.ones(shape), drawn * 20, drawn * 1e-6]


def assert_same(module: torch.jit.ScriptModule, example: torch.Tensor, free: tuple[int, ...], *sizes: int) -> None:
    """Ask both at the example's sizes, and with each of these in place of the free ones."""
    shapes = [
        [*example.shape],
        *([size if dim in free else one for dim, one in enumerate(example.shape)] for size in sizes),
    ]
    with torch.inference_mode():
        form: Any = raced.make(module, RacedForm.ONNXRUNTIME, calls_of(example, free=free))
        for x in (one for shape in shapes for one in values_of(*shape)):
            for _ in range(2):
                found = compare(module(x), form.forward(x), TOLERANCE)
                assert found.agrees, found.difference


@pytest.mark.parametrize(
    "part",
    [
        nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU()),
        *(nn.Conv2d(4, 6, 3, padding=1, padding_mode=mode) for mode in ("reflect", "replicate", "circular")),
        nn.Conv2d(4, 8, 3, groups=2, dilation=(2, 1), padding=(1, 2), stride=(2, 1)),
        nn.Conv2d(4, 4, 3, groups=4, padding=1, bias=False),
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=(1, 0)),
        nn.ConvTranspose2d(4, 6, 3, stride=3, groups=2, dilation=2, output_padding=2),
        nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, 1, 1, count_include_pad=False)),
        nn.Sequential(nn.MaxPool2d(2, 1, dilation=3), nn.AvgPool2d(2, 1, 1)),
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
        nn.Sequential(nn.GroupNorm(2, 4, eps=1e-12), nn.Hardswish(), nn.PixelShuffle(2)),
    ],
)
def test_layers_of_pictures(part: nn.Module) -> None:
    assert_same(archive(call, part, PICTURES), PICTURES, (0, 2, 3), 8, 17)


@pytest.mark.parametrize(
    "compute",
    [
        *(
            lambda own, x, one=one: one(x)
            for one in (torch.tanh, torch.sigmoid, functional.silu, functional.hardsigmoid)
        ),
        *(lambda own, x, how=how: functional.gelu(x, approximate=how) for how in ("none", "tanh")),
        *(lambda own, x, dim=dim: (x * 50).softmax(dim) for dim in (0, 1, -1)),
        lambda own, x: (x * 50).log_softmax(-1),
        lambda own, x: functional.layer_norm(x, (16,), eps=1e-12),
        lambda own, x: x.clamp(-1, 2) + functional.leaky_relu(x) - x**2 / 3,
        lambda own, x: x - x.mean(-1, keepdim=True) + x.sum((0, 2))[:, None] + x.mean(),
        lambda own, x: functional.scaled_dot_product_attention(x, x * 2, x + 1, scale=0.3),
        lambda own, x: x * ((x.size(1) - 10) // 3) + x[:, : x.size(1) // 2].sum(1, keepdim=True),
        lambda own, x: x.view(x.size(0), x.size(1), 4, -1).transpose(1, 2).reshape(x.shape) * x.size(1),
        *(lambda own, x, dim=dim: x.unflatten(dim, (1, -1)).transpose(1, 2) for dim in (0, 1, -1)),
        lambda own, x: x.unflatten(1, (1, x.size(1))).transpose(1, 2),
        lambda own, x: torch.cat([x[:1].expand(x.size(0), -1, -1), x.flip(1), x[:, -1:]], 1),
        lambda own, x: torch.cat(x.chunk(3, -1)[::-1], -1) + torch.stack([x, x * 2]).flatten(0, 1)[: x.size(0)],
        lambda own, x: torch.matmul(x, x.transpose(1, 2)) @ functional.pad(x, (1, 2), value=7.0),
        lambda own, x: (x * 2).relu_().add_(x),
    ],
)
def test_operators(compute: Compute) -> None:
    assert_same(archive(compute, None, WORDS), WORDS, (0, 1), 1, 3, 64)


def test_attention() -> None:
    def attend(own: Any, x: torch.Tensor) -> torch.Tensor:
        return own(x, x, x, need_weights=False)[0]  # type: ignore[no-any-return]

    assert_same(archive(attend, nn.MultiheadAttention(16, 4, batch_first=True), WORDS), WORDS, (0, 1), 1, 3)


@pytest.mark.parametrize(
    "compute",
    [
        lambda own, x: x,
        lambda own, x: (x, x.view(-1), x * 2),
        lambda own, x: (x * 2,) * 2,
        lambda own, x: (x * 2, (x + 1, (x.sum(),))),
        lambda own, x: (x.select(1, 0), x.unsqueeze(0), x.transpose(0, 1)),
    ],
)
def test_what_it_returns_nests_as_it_did(compute: Compute) -> None:
    assert_same(archive(compute, None, WORDS), WORDS, (0, 1), 1, 3)


@pytest.mark.parametrize("compute", [torch.sigmoid, functional.silu])
def test_what_is_almost_0_has_all_its_digits(compute: Any) -> None:
    """Of ONNX Runtime's own sigmoid, it has none: 1.8e-7 for 4.8e-8."""
    module, x = archive(lambda own, x: compute(x), None, WORDS), torch.linspace(-80, -10, 160).view(WORDS.shape)
    with torch.inference_mode():
        form: Any = raced.make(module, RacedForm.ONNXRUNTIME, calls_of(WORDS))
        form.forward(WORDS)
        answer = form.forward(x)

    torch.testing.assert_close(answer, compute(x), rtol=1e-5, atol=1e-38)


@pytest.mark.parametrize(
    "compute",
    [
        lambda own, x: x.mean((2, 3)),
        lambda own, x: x.flatten(1).sum(1, keepdim=True),
        lambda own, x: x.mean(),
        lambda own, x: functional.adaptive_avg_pool2d(x, 1),
        lambda own, x: functional.adaptive_avg_pool1d(x.flatten(2), 1),
        lambda own, x: x.flatten(1).transpose(0, 1).mean(0),
    ],
)
def test_a_sum_of_many_numbers_that_are_alike_loses_none(compute: Compute) -> None:
    """ONNX Runtime's own loses a thousandth of these, and nothing of numbers of both signs."""
    module, alike = archive(compute, None, PICTURES), torch.full((1, 1, 500, 500), -77.7)
    with torch.inference_mode():
        form: Any = raced.make(module, RacedForm.ONNXRUNTIME, calls_of(PICTURES))
        form.forward(torch.randn(alike.shape))

        torch.testing.assert_close(form.forward(alike), module(alike), rtol=1e-5, atol=0)


def test_a_norm_of_numbers_that_are_alike_is_almost_0() -> None:
    """That of ONNX Runtime gives 0.02."""
    part, alike = nn.GroupNorm(2, 4), torch.full((1, 4, 500, 500), 0.1)
    module = archive(call, part, PICTURES)
    with torch.inference_mode():
        form: Any = raced.make(module, RacedForm.ONNXRUNTIME, calls_of(PICTURES))
        form.forward(torch.randn(alike.shape))

        assert form.forward(alike).abs().max() < 1e-5


@pytest.mark.parametrize("compute", [functional.hardsigmoid, functional.hardswish])
def test_what_is_almost_0_at_a_bend_has_all_its_digits(compute: Any) -> None:
    module, x = archive(lambda own, x: compute(x), None, WORDS), -3 + torch.linspace(1e-6, 1e-4, 160).view(WORDS.shape)
    with torch.inference_mode():
        form: Any = raced.make(module, RacedForm.ONNXRUNTIME, calls_of(WORDS))
        form.forward(WORDS)

        torch.testing.assert_close(form.forward(x), compute(x), rtol=1e-5, atol=0)


def test_an_answer_is_no_memory_of_an_input_or_of_another_answer() -> None:
    module, x = archive(lambda own, x: x, None, WORDS), torch.ones(WORDS.shape)
    with torch.inference_mode():
        form: Any = raced.make(module, RacedForm.ONNXRUNTIME, calls_of(WORDS))
        first, second = [form.forward(x) for _ in range(3)][1:]
        first += 1

    assert x.unique().tolist() == second.unique().tolist() == [1.0]


def test_other_sizes_than_it_was_made_for_are_not_answered() -> None:
    module = archive(lambda own, x: x.mean(1) * x.size(1), None, WORDS)
    with torch.inference_mode():
        form: Any = raced.make(module, RacedForm.ONNXRUNTIME, calls_of(WORDS, free=(0,)))
        form.forward(WORDS)
        with pytest.raises(Exception, match="Got invalid dimensions"):
            form.forward(torch.randn(2, 6, 16))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2 * FLOAT_MAX])
def test_unusual_values_are_answered_as_saved(value: float) -> None:
    module, x = archive(lambda own, x: torch.relu(x) * 1.1, None, WORDS), WORDS.clone()
    x[0, 1, 2] = value
    with torch.inference_mode():
        form: Any = raced.make(module, RacedForm.ONNXRUNTIME, calls_of(WORDS))
        answers = [form.forward(x) for _ in range(3)]
        expected = module(x)

    assert all(torch.equal(one.nan_to_num(7), expected.nan_to_num(7)) for one in answers)


@pytest.mark.parametrize(
    ("compute", "example", "why"),
    [
        (lambda own, x: x * 2, torch.arange(4), "inputs that are not FP32"),
        (lambda own, x: x / x.sum(), WORDS, "aten::div, which may make what is not a number"),
        (
            lambda own, x: functional.elu(x),
            WORDS,
            "aten::elu, which other runtimes are not known to compute as torch does",
        ),
    ],
)
def test_what_has_no_such_form(compute: Compute, example: torch.Tensor, why: str) -> None:
    with pytest.raises(raced.NoSuchForm, match=why):
        raced.make(archive(compute, None, example), RacedForm.ONNXRUNTIME, calls_of(example))


def test_what_cannot_be_written_says_why() -> None:
    from tracehouse.forms.onnx_runtime import NotPorted

    module = archive(lambda own, x: functional.layer_norm(x, x.shape[1:]), None, WORDS)

    with pytest.raises(NotPorted, match="no graph of ONNX"):
        raced.make(module, RacedForm.ONNXRUNTIME, calls_of(WORDS))


def test_it_sends_nothing() -> None:
    """Its telemetry would have a thread, from the import on."""
    count = "import os, tracehouse.forms.onnx_runtime; print(len(os.listdir('/proc/self/task')))"
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    counted = subprocess.run([sys.executable, "-c", count], env=environment, capture_output=True, text=True, check=True)

    assert counted.stdout.split() == ["1"]
