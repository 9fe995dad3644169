"""Numbers that a trace computes from sizes, and whether they have as many digits as Python's."""

from collections.abc import Callable

import pytest
import torch

from tracehouse.torchscript.size_numbers import rounds_numbers_of_sizes

RIGHT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "divides by a size": lambda x: x / x.shape[-1],
    "adds an integer": lambda x: x + (x.shape[0] * 2 - 1),
    "takes a mean": lambda x: x.mean(-1),
    "makes a tensor of a size": lambda x: x + torch.zeros(x.shape[0], 1),
    "multiplies by a constant": lambda x: x * 0.1,
}
ROUNDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a root": lambda x: x * x.shape[-1] ** -0.5,
    "a fraction": lambda x: x * (1 / (x.shape[-1] + 1)),
    "a share of all elements": lambda x: x * (x.shape[0] / x.numel()),
}


@pytest.mark.parametrize("name", [*RIGHT, *ROUNDS])
def test_a_number_of_sizes_that_is_a_float_is_found(name: str) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return {**RIGHT, **ROUNDS}[name](x)

    traced = torch.jit.trace(Net(), torch.ones(2, 3))

    assert rounds_numbers_of_sizes(traced, "forward") is (name in ROUNDS)
