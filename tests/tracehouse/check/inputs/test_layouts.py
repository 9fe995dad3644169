"""Layouts: the same values, laid out in memory as they are in no request."""

import torch

from tests.tracehouse.check.inputs.test_thresholds import call
from tracehouse.check.inputs.layouts import vary_layouts

IMAGE = torch.randn(2, 3, 4, 5)


def laid_out(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    cases = vary_layouts(call(tensor))
    return {one.name.removeprefix("probe: "): one.laid_out.clone().tensors["x0"] for one in cases}


def test_the_values_stay_and_the_layouts_do_not() -> None:
    for case in vary_layouts(call(IMAGE)):
        plain, varied = case.plain.clone().tensors["x0"], case.laid_out.clone().tensors["x0"]
        assert torch.equal(plain, varied), case.name
        assert plain.is_contiguous()
        assert not plain.requires_grad


def test_each_layout_is_what_it_is_called() -> None:
    found = laid_out(IMAGE)

    assert not found["inputs in another order in memory"].is_contiguous()
    assert found["inputs with channels last"].is_contiguous(memory_format=torch.channels_last)
    assert found["inputs that are parts of larger tensors"].storage_offset() > 0
    assert found["inputs that are yet to be negated"].is_neg()
    assert 0 in found["inputs expanded from one row"].stride()
    assert not found["gradients enabled"].requires_grad
    assert isinstance(found["inputs that are parameters"], torch.nn.Parameter)
    assert found["inputs computed with gradients"].grad_fn is not None


def test_a_volume_has_its_channels_last_too() -> None:
    volume = laid_out(torch.randn(2, 3, 4, 5, 6))["inputs with channels last"]

    assert volume.is_contiguous(memory_format=torch.channels_last_3d)


def test_a_row_gets_gaps() -> None:
    assert laid_out(torch.tensor([1, 2]))["inputs in another order in memory"].stride() == (2,)


def test_whole_numbers_have_no_gradients() -> None:
    assert not any(tensor.requires_grad for tensor in laid_out(torch.tensor([[1, 2]])).values())


def test_an_empty_tensor_has_gradients_alone() -> None:
    assert [*laid_out(torch.zeros(0, 3))] == [
        "gradients enabled", "inputs that are parameters", "inputs computed with gradients",
    ]  # fmt: skip
