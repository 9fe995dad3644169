"""Claims against the truth: at every size that a contract takes, the artifact answers as the model, on any values."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch

import tracehouse
from tests.models import right_at_every_size, right_at_the_example_alone
from tests.tracehouse.check.targets import make_target
from tracehouse.check.prove.prover import prove
from tracehouse.check.report import Report
from tracehouse.check.size_groups import Groups
from tracehouse.contract.regions import Region
from tracehouse.differential.budget import Budget
from tracehouse.findings.verdict import Verdict

BATCH, LENGTH, LONGEST = 2, 8, 1024
WRONG = [
    name for name, value in vars(right_at_the_example_alone).items()
    if isinstance(value, type) and issubclass(value, torch.nn.Module)
]  # fmt: skip
RIGHT = [
    "DividesByLengths", "MultipliesByAnInverse", "VariesByHand", "TakesTheLargerHalf", "AssertsAndLogs",
    "AsksForIntsOfItsShape",
]  # fmt: skip
# Of every length, so that a branch on any of them is taken both ways.
VALUES: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x.abs(),
    lambda x: -x.abs(),
    lambda x: x.abs() * 300 + 2,
    lambda x: x + 1e6,
    lambda x: x.abs().index_fill(1, torch.tensor(0), float("nan")),
]


def check(module: torch.nn.Module) -> Report:
    example = torch.randn(BATCH, LENGTH, generator=torch.Generator().manual_seed(1))
    return tracehouse.check(module.eval(), (example,), dynamic={"x": {1: "length"}})


@cache
def check_wrong(name: str) -> tuple[torch.nn.Module, Report]:
    module = getattr(right_at_the_example_alone, name)()
    return module, check(module)


def claimed(report: Report) -> Iterator[tuple[int, Region]]:
    for region in report.contract.methods["forward"].regions:
        for span in region.spans.get("length", []):
            yield from ((length, region) for length in range(span.low, span.high + 1, span.step))


def agrees(module: torch.nn.Module, artifact: torch.jit.ScriptModule, x: torch.Tensor) -> bool:
    expected = module(x.clone())
    try:
        actual = artifact(x.clone())
    except RuntimeError:
        return False
    return expected.shape == actual.shape and torch.allclose(expected, actual, rtol=1e-4, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", WRONG)
def test_no_size_is_claimed_at_which_the_artifact_is_wrong(name: str) -> None:
    module, report = check_wrong(name)

    if report.verdict is Verdict.REJECTED:
        return
    wrong = []
    for length, region in claimed(report):
        x = torch.randn(BATCH, length, generator=torch.Generator().manual_seed(length))
        wrong += [(length, region.basis) for change in VALUES if not agrees(module, report.artifact, change(x))]
    assert wrong == []


@pytest.mark.parametrize("name", WRONG)
def test_the_artifact_is_wrong_at_some_size(name: str) -> None:
    module, report = check_wrong(name)

    inputs = (torch.randn(BATCH, length, generator=torch.Generator().manual_seed(length)) for length in range(1, 1025))
    assert not all(agrees(module, report.artifact, change(x)) for x in inputs for change in VALUES)


@pytest.mark.parametrize("name", RIGHT)
def test_every_size_of_a_right_model_is_proven(name: str) -> None:
    report = check(getattr(right_at_every_size, name)())

    [region] = report.contract.methods["forward"].regions
    assert report.verdict is Verdict.VERIFIED
    assert (str(region), region.basis) == (f"length 1 to {LONGEST}", "proven")


def test_a_number_that_is_rounded_otherwise_is_sampled_and_not_proven() -> None:
    report = check(right_at_every_size.MultipliesByAnInverseTwice())

    regions = [(str(region), region.basis) for region in report.contract.methods["forward"].regions]
    assert regions == [("length 1", "proven"), (f"length 2 to {LONGEST}", "sampled")]
    gaps = [text for layer in report.check.layers for text in layer.left_out]
    assert any("rounds a number otherwise" in text for text in gaps)


def test_a_model_in_doubles_is_right_to_its_last_digits_at_every_claimed_size() -> None:
    module = right_at_the_example_alone.VariesInDoubles()
    example = torch.randn(BATCH, LENGTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    report = tracehouse.check(module, (example,), dynamic={"x": {1: "length"}})

    # Its artifact rounds 1 / length to a float32, which shows where the mean is large.
    inputs = {length: 1e4 + torch.randn(BATCH, length, dtype=torch.float64) for length, _ in claimed(report)}
    lengths = [length for length, x in inputs.items() if not torch.allclose(module(x), report.artifact(x), rtol=1e-9)]
    assert (report.verdict, lengths) == (Verdict.RESTRICTED, [])


@pytest.mark.parametrize("name", ["RaisesALengthBeyond64Bits", "MultipliesBeyond64Bits"])
def test_a_script_is_not_proven_where_its_integers_wrap_around(name: str) -> None:
    module = getattr(right_at_the_example_alone, name)()
    target = make_target(module, torch.zeros(BATCH, LENGTH), scripted=True)
    groups = Groups({"x": (BATCH, "length")}, {"length": LENGTH}, {"x": {}})

    proof = prove(target, groups, {"length": range(1, LONGEST + 1)}, Budget(60))

    inputs = {length: torch.zeros(BATCH, length) for length in range(1, LONGEST + 1)}
    wrong = [length for length, x in inputs.items() if not agrees(module, target.artifact, x)]
    assert wrong
    assert [length for length in wrong if any(region.contains({"length": length}) for region in proof.regions)] == []


def test_a_region_that_is_sampled_was_called_on_the_other_side_of_its_branch() -> None:
    report = check(right_at_every_size.DividesOnBothSides())

    [region] = report.contract.methods["forward"].regions
    assert (str(region), region.basis) == (f"length 1 to {LONGEST}", "sampled")
