"""The float64 model: the eager model's answer without the rounding of its own dtype."""

import io
from typing import Any

import pytest
import torch

from tracehouse.check import float64_model
from tracehouse.check.float64_model import Float64Model
from tracehouse.eager.call import Call, bind


def outputs_of(module: torch.nn.Module, *args: Any) -> Any:
    return Float64Model(module).outputs(call_of(module, *args), 0, within_s=60.0)


def call_of(module: torch.nn.Module, *args: Any) -> Call:
    return bind(module, "forward", "forward", args, {})


class CastsInside(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.plain = torch.randn(4)  # neither a parameter nor a buffer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x).float()
        x = x * torch.rsqrt(x.to(torch.float32).square().mean() + 1e-6) + torch.zeros(4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.linear(x) @ self.plain


def test_nothing_is_rounded_to_fewer_digits_on_the_way() -> None:
    module, x = CastsInside().eval(), torch.randn(3, 4)
    weight, bias, plain = (one.detach().double() for one in (module.linear.weight, module.linear.bias, module.plain))

    y = x.double() @ weight.T + bias
    y = y * torch.rsqrt(y.square().mean() + 1e-6)
    torch.testing.assert_close(outputs_of(module, x), (y @ weight.T + bias) @ plain, rtol=1e-13, atol=1e-13)


def test_the_model_and_torch_are_left_as_they_were() -> None:
    module = CastsInside().eval()
    outputs_of(module, torch.randn(3, 4))

    assert {one.dtype for one in [*module.parameters(), module.plain]} == {torch.float32}
    assert torch.get_default_dtype() == torch.float32


def test_a_model_that_cannot_run_says_why_and_is_not_tried_again() -> None:
    calls = []

    class Refuses(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(x.dtype)
            if x.dtype != torch.float32:
                raise TypeError("only float32 here")
            return x

    model = Float64Model(module := Refuses())
    said = [model.outputs(call_of(module, torch.ones(2)), 0, within_s=60.0) for _ in range(2)]

    assert all("only float32 here" in one for one in said)
    assert calls == [torch.float64]


def test_a_model_that_is_too_large_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float64_model, "FLOAT64_MAX_BYTES", 0)

    assert "it would have" in outputs_of(torch.nn.Linear(2, 2), torch.ones(2))


def test_a_call_that_never_ends_is_stopped() -> None:
    class Spins(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while x.dtype == torch.float64:
                x = x + 0
            return x

    module = Spins()
    said = Float64Model(module).outputs(call_of(module, torch.ones(2)), 0, within_s=0.1)

    assert "takes longer than" in said


def test_the_answer_of_an_archive_comes_without_a_warning_of_torch(recwarn: pytest.WarningsRecorder) -> None:
    """Its log is read by the person who sent it."""
    written = io.BytesIO()
    torch.jit.save(torch.jit.trace(torch.nn.Linear(4, 3).eval(), torch.ones(2, 4)), written)
    written.seek(0)
    archive = torch.jit.load(written)
    recwarn.clear()

    assert outputs_of(archive, torch.ones(2, 4)).dtype is torch.float64
    assert [str(one.message) for one in recwarn if "deprecated" not in str(one.message)] == []
