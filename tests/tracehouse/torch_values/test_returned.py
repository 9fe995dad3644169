"""What a method returns: its tensors go into the artifact, and come back with the rest, nested as they were."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch

from tracehouse.torch_values import returned, structure

A, B = torch.ones(2), torch.zeros(3)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Output:
    logits: torch.Tensor
    hidden: Any = None


VALUES = [
    (A, {"tensor": "output"}),
    ((A, None), {"tuple": [{"tensor": "output.0"}, {"baked": None}]}),
    ([A, 3, [B, 0.5]],
     {"list": [{"tensor": "output.0"}, {"baked": 3}, {"list": [{"tensor": "output.2.0"}, {"baked": 0.5}]}]}),
    ((A, [], (True, "text")), {"tuple": [{"tensor": "output.0"}, {"baked": []}, {"baked": [True, "text"]}]}),
    (OrderedDict(logits=A, n=1), {"mapping": {"logits": {"tensor": "output.logits"}, "n": {"baked": 1}}}),
    (Pair(None, B), {"namedtuple": {"left": {"baked": None}, "right": {"tensor": "output.1"}}}),
    (Output(A), {"dataclass": {"logits": {"tensor": "output.logits"}, "hidden": {"baked": None}}}),
    (Output(A, Pair(B, {"x": A})),
     {"dataclass": {"logits": {"tensor": "output.logits"}, "hidden": {"namedtuple": {
         "left": {"tensor": "output.hidden.0"},
         "right": {"mapping": {"x": {"tensor": "output.hidden.1.x"}}}}}}}),
    ((A, torch.fft.fft(B)), {"tuple": [{"tensor": "output.0"}, {"complex": "output.1"}]}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "described"), VALUES)
def test_what_is_returned_is_described_with_its_containers_and_its_constants(value: Any, described: Any) -> None:
    opened = returned.open_containers(value)

    assert structure.describe(opened, "output").model_dump(mode="json") == described


@pytest.mark.parametrize(("value", "described"), VALUES)
def test_the_tensors_come_back_to_their_places(value: Any, described: Any) -> None:
    opened = returned.open_containers(value)
    returns = structure.describe(opened, "output")

    restored = returned.restore(returns, returned.keep_tensors(opened))

    assert structure.describe(restored, "output") == returns
    assert structure.tensors(restored, "output") == structure.tensors(opened, "output")


@pytest.mark.parametrize("other", [(A, B), (A, (B,)), B, None, {"a": A}, ()])
def test_tensors_that_stand_otherwise_are_left_as_they_are(other: Any) -> None:
    returns = structure.describe({"logits": (A,), "n": 1}, "output")

    assert returned.restore(returns, other) is other


def test_a_constant_of_the_artifacts_own_gives_way_to_the_contracts() -> None:
    returns = structure.describe((A, 4), "output")

    assert returned.restore(returns, (B, 7)) == (B, 4)


def test_a_complex_tensor_is_named_as_pairs_of_reals() -> None:
    spectrum = torch.fft.fft(torch.tensor([1.0, 2.0, 3.0])).conj()

    (pairs,) = returned.tensors(spectrum).values()

    assert pairs.dtype is torch.float32
    assert torch.equal(pairs[:, 0], spectrum.real)
    assert torch.equal(pairs[:, 1], spectrum.imag)


def test_sizes_in_a_trace_are_the_numbers_that_they_are_elsewhere() -> None:
    seen = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        returns = structure.describe((x, 2, [2, 3]), "output")
        seen.append(returned.fix_sizes(returns, (x, x.shape[0], x.shape)))
        return x + 1

    graph = torch.jit.trace(forward, torch.ones(2, 3), check_trace=False).graph

    assert [item for item in seen[0] if not isinstance(item, torch.Tensor)] == [2, (2, 3)]
    assert "aten::Int" not in str(graph)
