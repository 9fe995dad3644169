"""Proofs against the truth: at every size that is proven, eager and the artifact must agree."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import pytest
import torch

from tests.tracehouse.check.targets import make_target
from tracehouse.check.calls import call_artifact
from tracehouse.check.prove.prover import Proof, prove
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.contract.dims import SymbolicShape
from tracehouse.contract.regions import Region
from tracehouse.differential.budget import Budget
from tracehouse.eager.model import LoadedModel
from tracehouse.torch_values.compare import compare

Load = Callable[..., LoadedModel]

LINE: dict[str, SymbolicShape] = {"x": ("batch", "length")}
ROWS: dict[str, SymbolicShape] = {"x": ("batch", "length", 8)}
FOURS: dict[str, SymbolicShape] = {"x": ("batch", "length", 4)}
IMAGE: dict[str, SymbolicShape] = {"x": ("batch", 2, "height", "width")}
IDS: dict[str, SymbolicShape] = {"ids": ("batch", "length")}
PAIR: dict[str, SymbolicShape] = {"queries": ("batch", "length", 4), "keys": ("batch", "other", 4)}
LENGTHS: dict[str, SymbolicShape] = {"x": ("batch", "length", 4), "lengths": ("batch",)}
SIZES = {"batch": 3, "length": 8, "other": 5, "height": 8, "width": 12}
WANTED = {
    "batch": range(1, 5), "length": range(1, 18), "other": range(1, 4), "height": range(1, 10), "width": range(3, 13),
}  # fmt: skip

RIGHT = {
    "Linear": FOURS, "Convolution": IMAGE, "Attention": ROWS, "MaskedByLengths": LENGTHS, "Positions": IDS,
    "TwoInputs": PAIR, "WritesInPlace": LINE, "WritesItsInput": LINE, "DividesByItsLength": FOURS,
    "HalvesItsLength": LINE, "PairsUp": LINE, "ChecksItsShape": LINE, "Windows": IMAGE, "CachesItsMask": FOURS,
    "KeepsATable": FOURS, "Upsamples": IMAGE, "PadsToAMultiple": LINE, "Einsum": FOURS, "Grouped": LINE,
    "Encoder": ROWS, "ComparesAnInteger": IDS, "Branches": LINE, "Recurrent": FOURS, "Elman": FOURS, "Spaced": FOURS,
    "PoolsByItsShape": FOURS, "Samples": FOURS, "Draws": LINE, "DrawsInTrainingAlone": LINE,
    "PadsTheSame": IMAGE, "PoolsTheLargest": FOURS, "Derives": LINE, "GoesToASpectrumAndBack": LINE,
    "MakesTensorsOfSizes": LINE, "AsksATensorOfItsLength": LINE, "TakesTheLargestOfItsShape": FOURS,
    "AsksWhetherItsMaskIsCausal": FOURS,
}  # fmt: skip
# Of these, one or two runs hold for all sizes from 3 on.
IN_FEW_RUNS = [
    "PoolsTheLargest",
    "Derives",
    "GoesToASpectrumAndBack",
    "MakesTensorsOfSizes",
    "TakesTheLargestOfItsShape",
]
WRONG = {
    "BakesZeros": LINE, "AddsAsManyOnes": LINE, "Loops": LINE, "BakesPositions": FOURS, "BranchesAtALength": LINE,
    "BranchesAtOneLength": LINE, "BranchesOnSquares": LINE, "PoolsToHalf": FOURS | {"x": ("batch", 4, "length")},
    "PoolsAll": FOURS | {"x": ("batch", 4, "length")}, "ExpandsToItsBatch": {"x": ("batch", 4)}, "MasksInPython": LINE,
    "ScalesByALength": LINE, "PutsOtherData": LINE, "TakesItsData": LINE, "AsksWhetherItIsTraced": LINE,
    "AsksForTensorsWithoutValues": LINE, "CountsItsCalls": LINE, "CountsInABuffer": LINE, "ReadsAValue": LINE,
    "RollsByAThird": LINE, "CutsAShare": LINE, "AnswersOtherwiseInOneRow": LINE,
    "CatchesItsReads": LINE, "GoesThroughNumpy": LINE, "SharesMemory": LINE, "KeepsItsFirstLength": LINE,
    "SpacesToItsLength": LINE, "PoolsOverItsLength": FOURS, "UnrollsItsCells": FOURS,
    "DerivesByItsExample": LINE, "GoesBackToItsFirstLength": LINE,
    "MakesOneTensorOfItsSizes": LINE, "ReadsATensorOfItsLength": LINE, "BranchesOnATensorOfItsLength": LINE,
    "TakesTheLargestOfOneLength": LINE, "RaisesToItsLength": LINE, "FillsSmallIntegersWithItsLength": LINE,
}  # fmt: skip


def symbols(shapes: Mapping[str, SymbolicShape]) -> list[str]:
    return list(dict.fromkeys(dim for shape in shapes.values() for dim in shape if isinstance(dim, str)))


def tensors(shapes: Mapping[str, SymbolicShape], sizes: Mapping[str, int]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(sizes.values()))
    made = []
    for name, shape in shapes.items():
        full = [sizes[dim] if isinstance(dim, str) else dim for dim in shape]
        if name == "ids":
            made.append(torch.randint(0, 20, full, generator=generator))
        elif name == "lengths":
            made.append(torch.randint(1, sizes["length"] + 1, full, generator=generator))
        else:
            made.append(torch.randn(full, generator=generator))
    return made


def groups_of(shapes: Mapping[str, SymbolicShape]) -> Groups:
    return Groups(dict(shapes), {name: SIZES[name] for name in symbols(shapes)}, {name: {} for name in shapes})


def proof_of(target: Target, shapes: Mapping[str, SymbolicShape], **given: Any) -> Proof:
    wanted = {name: WANTED[name] for name in symbols(shapes)}
    return prove(target, groups_of(shapes), wanted, Budget(60), **given)


def points(region: Region) -> list[dict[str, int]]:
    sizes = [
        [size for span in spans for size in range(span.low, span.high + 1, span.step)]
        for spans in region.spans.values()
    ]
    return [dict(zip(region.spans, point, strict=True)) for point in product(*sizes)]


def assert_agree(target: Target, shapes: Mapping[str, SymbolicShape], proof: Proof) -> None:
    """Compare at every size that is proven."""
    for sizes in (point for region in proof.regions for point in points(region)):
        call = target.call.with_tensors(dict(zip(shapes, tensors(shapes, sizes), strict=True)))
        eager, artifact = target.eager.answer(call), call_artifact(target.artifact, call, 0)
        compared = compare(eager.outputs, artifact.outputs, 1e-4)
        assert compared.agrees, (sizes, compared.difference)
        assert compare(eager.inputs, artifact.inputs, 1e-4).agrees, sizes


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_proven_of_a_right_model_is_so_and_is_all_that_eager_takes(load: Load, name: str) -> None:
    shapes = RIGHT[name]
    target = make_target(load("right_at_every_size", name).module, *tensors(shapes, SIZES))
    proof = proof_of(target, shapes)

    assert_agree(target, shapes, proof)
    assert proof.refutations == []
    assert proof.gaps == []
    assert proof.proven + proof.refused == proof.points
    assert sum(len(points(region)) for region in proof.regions) == proof.proven > 1


@pytest.mark.parametrize("name", IN_FEW_RUNS)
def test_no_run_ends_at_one_size(load: Load, name: str) -> None:
    shapes = RIGHT[name]
    target = make_target(load("right_at_every_size", name).module, *tensors(shapes, SIZES))

    proof = prove(target, groups_of(shapes), {dim: range(3, 300) for dim in symbols(shapes)}, Budget(60))

    assert proof.proven == proof.points
    assert proof.cases <= 2


@pytest.mark.parametrize("name", WRONG)
def test_what_is_proven_of_a_wrong_model_is_so_and_something_is_not(load: Load, name: str) -> None:
    shapes = WRONG[name]
    target = make_target(load("wrong_at_other_sizes", name).module, *tensors(shapes, SIZES))
    proof = proof_of(target, shapes)

    assert_agree(target, shapes, proof)
    assert proof.proven + proof.refused < proof.points
    assert proof.refutations or proof.gaps
