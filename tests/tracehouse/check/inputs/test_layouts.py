"""Layouts: the same values, laid out in memory as they are in no request."""

import torch

from tests.tracehouse.check.inputs.test_thresholds import call
from tracehouse.check.inputs.layouts import vary_layouts


def test_the_values_stay_and_the_strides_do_not() -> None:
    image = torch.randn(2, 3, 4, 5)
    found = {name: probe.clone().tensors["x0"] for name, probe in vary_layouts(call(image))}

    assert [*found] == [
        "probe: inputs in another order in memory", "probe: inputs with channels last",
        "probe: inputs requiring gradients",
    ]  # fmt: skip
    assert all(torch.equal(tensor, image) for tensor in found.values())
    assert found["probe: inputs with channels last"].is_contiguous(memory_format=torch.channels_last)
    assert found["probe: inputs requiring gradients"].requires_grad
    assert not found["probe: inputs in another order in memory"].is_contiguous()


def test_ids_in_one_row_have_no_other_layout() -> None:
    assert not list(vary_layouts(call(torch.tensor([1, 2]))))
