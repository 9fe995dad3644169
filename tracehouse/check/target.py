"""The target of the check: one method of the model, its example, and the artifact made from it."""

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from tracehouse.artifact.manifest import Form
from tracehouse.check.artifact_answer import ArtifactAnswer, ask_artifact
from tracehouse.check.calls import CallResult
from tracehouse.check.graph_diff.canonical import CanonicalGraph, canonicalize
from tracehouse.check.instrumentation.recorded_graph import forget_stale_index
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.time_limit import time_limit
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager.call import Call
from tracehouse.eager.model import LoadedModel
from tracehouse.torchscript.trace import Retrace


@dataclass(frozen=True)
class Target:
    """One method, its example and its artifact.

    `retrace` is None if the artifact was scripted or uploaded. `tolerance` is the relative tolerance of comparisons.
    `seed` seeds the inputs that are drawn, and `eager.seed` every call.
    """

    model: LoadedModel
    call: Call  # the example
    eager: EagerOracle
    artifact: torch.jit.ScriptModule
    form: Form
    retrace: Retrace | None
    tolerance: float
    seed: int

    @property
    def method(self) -> str:
        """The method's name in the contract."""
        return self.call.method

    @property
    def reads_values_anew(self) -> bool:
        """Whether the artifact reads values at each call, as the model does: it was compiled, and not traced."""
        return self.form in ("scripted", "uploaded")

    @cached_property
    def graph(self) -> CanonicalGraph:
        """The artifact's canonical graph."""
        return canonicalize(self.artifact, self.method, self.call.returns if self.call.keeps_tensors else None)

    @property
    def example(self) -> CallResult:
        """The eager model's answer to the example. Raises ModelRaised if the model refuses it."""
        return self._timed_example[0]

    @property
    def example_s(self) -> float:
        """How many seconds the eager model took for the example. Raises ModelRaised if the model refuses it."""
        return self._timed_example[1]

    @property
    def call_s(self) -> float:
        """How many seconds the eager model may take for another call, from how long it took for the example.

        Raises ModelRaised if the model refuses the example.
        """
        return CALL_LIMITS.resized.after(self._timed_example[1])

    @property
    def single_s(self) -> float:
        """How many seconds the eager model may take for one more call of the example's sizes, as `call_s`."""
        return CALL_LIMITS.single.after(self._timed_example[1])

    @cached_property
    def _timed_example(self) -> tuple[CallResult, float]:
        started = time.monotonic()
        return self.eager.answer(self.call), time.monotonic() - started

    def ask_artifact(self, call: Call, eager: CallResult) -> ArtifactAnswer:
        """Return the artifact's answer to a call beside the eager model's. Raises LimitExceeded without memory."""
        return ask_artifact(self.eager, self.artifact, call, eager, tolerance=self.tolerance, seed=self.eager.seed)

    def trace_again(
        self,
        call: Call | None = None,
        within: AbstractContextManager[Any] | None = None,
        *,
        within_s: float | None = None,
    ) -> CanonicalGraph:
        """Trace a new copy of the model on the example, or on another call, inside the context `within`.

        Return the graph. The target must have a `retrace`. Raises whatever tracing raises, and TooSlow after `within_s`
        seconds of wall-clock time; None sets no limit.
        """
        assert self.retrace is not None
        with forget_stale_index(), time_limit(within_s):
            again = self.retrace(call or self.call, within or nullcontext())
            return canonicalize(again.module, self.method, again.returns)
