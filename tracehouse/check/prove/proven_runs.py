"""Proven runs: the artifact's runs on symbols of a proof, and at which sizes each of them is proven."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sympy
import torch

from tracehouse.check.prove.evaluation import Evaluation, Values
from tracehouse.check.prove.size_arithmetic import Computation
from tracehouse.check.prove.size_division import SizeDivision
from tracehouse.check.prove.symbolic_case import CaseResult
from tracehouse.check.prove.trail import OperatorCall
from tracehouse.torch_values import structure


@dataclass(frozen=True)
class ProvenRun:
    """A run of the artifact on symbols that computes what eager computes, wherever its case is proven.

    `inputs` and `outputs` are tensors by path; each has only sizes, like those of `calls`, or is held by the artifact.
    `held` has the address of what the artifact holds, by the storage of the tensor without values that stands for it.
    """

    calls: Sequence[OperatorCall]
    inputs: Mapping[str, torch.Tensor]
    outputs: Mapping[str, torch.Tensor]
    held: Mapping[int, int]
    names: Mapping[sympy.Symbol, str]
    computations: Mapping[sympy.Symbol, Computation]

    def evaluation(self, sizes: Callable[[str], Values]) -> Evaluation:
        """Return what evaluates the run's symbolic numbers at these sizes, of which there are some for each name."""
        return Evaluation(sizes, self.names, self.computations)


class ProvenRuns:
    """The runs of one proof."""

    def __init__(self, division: SizeDivision, results: Sequence[CaseResult]) -> None:
        self._division = division
        self._proven = division.mask("proven")
        self._runs = [_find_run(result) for result in results]

    def run_at(self, sizes: Mapping[str, int]) -> ProvenRun | None:
        """Return the run of the case that proves these sizes; None without one, or where values decide sizes in it."""
        grid = self._division.grid
        cell = grid.cell_of(sizes) if sizes.keys() >= set(grid.symbols) else None
        if cell is None or not self._proven[cell]:
            return None
        return self._runs[int(self._division.owners[cell])]


def _find_run(result: CaseResult) -> ProvenRun | None:
    """Return the artifact's run of a case; None if it drew random numbers or did what no list of its calls shows."""
    run, symbols = result.artifact_run, result.symbols
    if run is None or symbols is None or result.status != "proven" or result.others or symbols.data_sizes:
        return None
    recorder = run.recorder
    if recorder.trail.draws or recorder.changes_shapes_in_place or recorder.writes_held_tensors():
        return None
    # What is kept longer than the proof must not lead to the copies of the model that it was made with.
    symbols.find_lines_with(_find_no_line)
    return ProvenRun(
        recorder.trail.calls,
        run.inputs,
        structure.tensors(run.outputs, "output"),
        recorder.held_addresses(),
        symbols.names,
        symbols.computations,
    )


def _find_no_line() -> None:
    return None
