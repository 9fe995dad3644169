"""Golden cases: what is kept with an artifact to be replayed."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tracehouse.differential import golden
from tracehouse.differential.golden import GoldenCase
from tracehouse.tensors.tensor import Tensor
from tracehouse.torch_values.tensors import pack, unpack


def read(path: Path, data: bytes) -> list[GoldenCase]:
    path.write_bytes(data)
    return golden.read(os.open(path, os.O_RDONLY))


def case(method: str, inputs: dict[str, torch.Tensor], outputs: dict[str, torch.Tensor]) -> GoldenCase:
    return GoldenCase(method, pack(inputs), pack(outputs))


def test_cases_come_back_as_they_were_kept(tmp_path: Path) -> None:
    shared = torch.arange(6).reshape(2, 3)
    first = case("forward", {"pair.0": shared, "pair.1": shared.T}, {"output": torch.tensor(1.5)})
    second = case("encode", {"x": torch.ones(0, 2)}, {"output.a": torch.tensor([True])})

    kept = read(tmp_path / "golden", golden.encode([first, second]))

    assert [case.method for case in kept] == ["forward", "encode"]
    assert torch.equal(unpack(kept[0].inputs)["pair.1"], shared.T)
    assert torch.equal(unpack(kept[0].outputs)["output"], torch.tensor(1.5))
    assert [tensor.shape for tensor in kept[1].inputs] == [(0, 2)]
    assert unpack(kept[1].outputs)["output.a"].dtype is torch.bool


def test_every_datatype_is_kept_as_safetensors_reads_it(every_datatype: list[Tensor]) -> None:
    written = safetensors.torch.load(golden.encode([GoldenCase("forward", every_datatype, [])]))

    expected = unpack(every_datatype)
    assert len(written) == len(expected) == 13
    for name, tensor in expected.items():
        found = written[f"0.forward.input.{name}"]
        assert found.dtype is tensor.dtype
        assert found.tolist() == tensor.tolist()


def test_more_than_ten_cases_keep_their_order(tmp_path: Path) -> None:
    cases = [case("forward", {"x": torch.tensor(float(n))}, {"output": torch.zeros(1)}) for n in range(12)]

    kept = read(tmp_path / "golden", golden.encode(cases))

    assert [float(unpack(case.inputs)["x"]) for case in kept] == [float(n) for n in range(12)]


def test_a_case_keeps_the_seed_under_which_random_numbers_were_drawn(tmp_path: Path) -> None:
    plain = case("forward", {"x": torch.zeros(1)}, {"output": torch.ones(1)})

    kept = read(tmp_path / "golden", golden.encode([replace(plain, seed=golden.SEED_MAX), plain]))

    assert [case.seed for case in kept] == [golden.SEED_MAX, None]
    assert [len(case.outputs) for case in kept] == [1, 1]


def test_what_is_no_seed_is_refused(tmp_path: Path) -> None:
    wrong = replace(case("forward", {}, {"output": torch.ones(1)}), seed=golden.SEED_MAX + 1)

    with pytest.raises(ValueError, match="seed"):
        read(tmp_path / "golden", golden.encode([wrong]))
