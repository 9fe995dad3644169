"""Golden cases: what is kept with an artifact to be replayed."""

import os
from collections.abc import Callable
from pathlib import Path

import torch

from tests.tracing.conftest import Told, spec, tensor
from workers import golden
from workers.golden import Case

Run = Callable[..., Told]


def read(path: Path, data: bytes) -> list[Case]:
    path.write_bytes(data)
    return golden.read(os.open(path, os.O_RDONLY))


def test_cases_come_back_as_they_were_kept(tmp_path: Path) -> None:
    shared = torch.arange(6).reshape(2, 3)
    first = Case("forward", {"pair.0": shared, "pair.1": shared.T}, {"output": torch.tensor(1.5)})
    second = Case("encode", {"x": torch.ones(0, 2)}, {"output.a": torch.tensor([True])})

    kept = read(tmp_path / "golden", golden.write([first, second]))

    assert [case.method for case in kept] == ["forward", "encode"]
    assert torch.equal(kept[0].inputs["pair.1"], shared.T)
    assert torch.equal(kept[0].outputs["output"], torch.tensor(1.5))
    assert kept[1].inputs["x"].shape == (0, 2)
    assert kept[1].outputs["output.a"].dtype is torch.bool


def test_more_than_ten_cases_keep_their_order(tmp_path: Path) -> None:
    cases = [Case("forward", {"x": torch.tensor(float(n))}, {"output": torch.zeros(1)}) for n in range(12)]

    kept = read(tmp_path / "golden", golden.write(cases))

    assert [float(case.inputs["x"]) for case in kept] == [float(n) for n in range(12)]


def test_a_trace_keeps_its_example_and_a_few_that_agreed(run: Run, tmp_path: Path) -> None:
    told = run(spec("branches_on_data", example_inputs=[tensor([1.0, 2.0])]))

    kept = read(tmp_path / "golden", told.files["golden"])

    assert kept[0].inputs["x"].tolist() == [1.0, 2.0]
    assert all(torch.equal(case.outputs["output"], case.inputs["x"] * 2) for case in kept)
    assert 1 < len(kept) <= 5
