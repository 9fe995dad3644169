"""Differential runs: rounding by which both models differ is an error only if it is one on other inputs, too.

The models are functions on NumPy arrays, and their processes answer at once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.submissions import spec, tensor
from tracehouse.contract.structure import TensorLeaf
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.comparison import Answer
from tracehouse.spec.trace_spec import TraceSpec
from tracehouse.tensors.tensor import Datatype, Tensor, array, array_bytes
from workers.processes.client import EagerAnswer
from workers.verification.differential_runs import DifferentialTester
from workers.verification.examples import ExampleRuns
from workers.verification.model_processes import ModelProcesses

Model = Callable[[np.ndarray], np.ndarray]
# Far more roundings than eager has, and far fewer than the fixed tolerance allows; signs alternate.
OFF = 1 + 2.0**-18 * np.where(np.arange(64) % 2 == 0, 1, -1)
DRAWN = np.linspace(-1, 1, 64, dtype=np.float32)


class Process:
    """Answers as a child with this model does."""

    without_fast_paths, processor_s, name = False, 0.0, "artifact"

    def __init__(self, model: Model) -> None:
        self._model = model

    def ask(self, _: BoundCall, inputs: Sequence[Tensor], *, float64: bool = False, **__: Any) -> None:
        values = array(inputs[0].datatype, inputs[0].data)
        outputs = self._model(values.astype(np.float64) if float64 else values)
        kind = Datatype.FP64 if float64 else Datatype.FP32
        leaf = Tensor("output", kind, outputs.shape, array_bytes(kind, outputs))
        self._answer = Answer(TensorLeaf(tensor="output"), {"output": leaf})

    def answer(self) -> Any:
        return self._answer


class EagerProcess(Process):
    def answer(self) -> EagerAnswer:
        return EagerAnswer(self._answer, drew=False, seconds=0.0)


def eager(x: np.ndarray) -> np.ndarray:
    squared: np.ndarray = x * x
    return squared


def off_on_these_values(x: np.ndarray) -> np.ndarray:
    return (eager(x) * OFF).astype(np.float32) if np.array_equal(x, DRAWN) else eager(x)


def off(x: np.ndarray) -> np.ndarray:
    return (eager(x) * OFF).astype(np.float32)


@pytest.mark.parametrize(
    ("artifact", "case", "agrees"),
    [
        pytest.param(off_on_these_values, "fresh 1", True, id="by chance"),
        pytest.param(off, "fresh 1", False, id="on all values"),
        pytest.param(off_on_these_values, "example", False, id="on inputs of the request"),
    ],
)
def test_rounding_on_drawn_inputs_is_an_error_if_it_is_one_on_others(artifact: Model, case: str, agrees: bool) -> None:
    inputs = [Tensor("x", Datatype.FP32, (64,), array_bytes(Datatype.FP32, DRAWN))]
    call = BoundCall("example", "forward", [], inputs)
    example = EagerProcess(eager)
    example.ask(call, inputs)
    asked = TraceSpec.model_validate(spec("linear", example_inputs=[tensor([1.0])]))
    processes: Any = ModelProcesses(asked, EagerProcess(eager), Process(artifact))  # type: ignore[arg-type]
    examples = ExampleRuns(processes, {"forward": call}, [], {"forward": example.answer()}, {}, {})
    tester = DifferentialTester(examples)

    run = tester.ask(call, case, inputs, keep=True)

    assert run.agrees is agrees
    assert tester.runs == [run]
    assert len(tester.golden_cases([run])) == agrees
