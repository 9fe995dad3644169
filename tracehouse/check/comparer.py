"""The comparer: it compares the artifact's answers with the eager model's, and reports what a difference means."""

from contextlib import AbstractContextManager
from typing import Any

import torch

from tracehouse.check.artifact_answer import ask_artifact
from tracehouse.check.calls import CallResult, call_artifact
from tracehouse.check.ledger import Ledger
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.case_names import EXAMPLE
from tracehouse.differential.comparison import ComparisonResult, compare_baked_arguments
from tracehouse.eager import observed_contract
from tracehouse.eager.call import Call, CheckCall
from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error
from tracehouse.errors import LimitExceeded, ModelRaised
from tracehouse.findings import coverage, differences, repeatability
from tracehouse.findings.comparison import comparison_of
from tracehouse.findings.kinds import Kind
from tracehouse.torch_values.compare import compare
from tracehouse.torchscript.trace import TraceResult


class Comparer:
    """Compares calls of one artifact with the eager model, and enters each in the ledger.

    `tolerance` is the relative tolerance of each comparison that `eager` does not measure. `seed` seeds the artifact's
    calls.
    """

    def __init__(self, eager: EagerOracle, traced: TraceResult, ledger: Ledger, *, tolerance: float, seed: int) -> None:
        self._eager = eager
        self._traced = traced
        self._ledger = ledger
        self._tolerance = tolerance
        self._seed = seed

    def compare_example(
        self, call: Call, answer: CallResult, around: AbstractContextManager[Any] | None = None
    ) -> None:
        """Compare on the example, to which `answer` is the eager model's, and report inputs that the model writes into.

        `around` surrounds the artifact's call. Raises LimitExceeded if the artifact runs out of memory.
        """
        self.record(call, EXAMPLE, self.compare(call, answer, around=around), in_contract=True)
        written = [
            name for name, tensor in call.tensors.items() if not compare(tensor, answer.inputs[name], 0.0).agrees
        ]
        if written:
            self._ledger.findings.append(repeatability.changes_its_input(call.method, written))

    def compare_check_input(self, given: CheckCall, example: Call, within_s: float) -> None:
        """Compare on a check input. If it has another value for a baked argument, it differs without a call.

        The model is stopped after `within_s` seconds. One that needs more memory than there is is not compared.
        """
        try:
            self._compare_check_input(given, example, within_s)
        except LimitExceeded as error:
            self._ledger.findings.append(coverage.check_input_stopped(given.name, error.detail))

    def _compare_check_input(self, given: CheckCall, example: Call, within_s: float) -> None:
        """Raises LimitExceeded if memory runs out."""
        try:
            answer = self._eager.answer(given.call, within_s=within_s)
        except ModelRaised as error:
            self._ledger.findings.append(coverage.check_input_refused(given.name, error.failure()))
            return
        except TooSlow as slow:
            self._ledger.findings.append(coverage.check_input_stopped(given.name, str(slow)))
            return
        baked = compare_baked_arguments(
            observed_contract.describe_arguments(example), observed_contract.describe_arguments(given.call)
        )
        if baked is not None:
            self.record(given.call, given.name, ComparisonResult(None, baked), in_contract=False)
            return
        compared = self.compare(given.call, answer)
        self.record(
            given.call, given.name, compared, in_contract=observed_contract.is_same_contract(example, given.call)
        )

    def compare(
        self, call: Call, eager: CallResult, *, draw: int = 0, around: AbstractContextManager[Any] | None = None
    ) -> ComparisonResult:
        """Compare the outputs, and then the inputs as the call left them. An artifact that raises differs.

        `draw` is that of eager's answer: the artifact draws the same random numbers. Raises LimitExceeded if the
        artifact runs out of memory.
        """
        asked = ask_artifact(
            self._eager,
            self._traced.module,
            call,
            eager,
            tolerance=self._tolerance,
            seed=self._seed + draw,
            around=around,
        )
        if asked.answer is not None and asked.answer.drew:
            self._ledger.stochastic_methods.add(call.method)
        if asked.answer is not None and (eager.drew or asked.answer.drew):
            self._ledger.random_methods.add(call.method)
        return asked.compared

    @property
    def artifact(self) -> torch.jit.ScriptModule:
        """The artifact that is compared."""
        return self._traced.module

    def answer_of_artifact(self, call: Call) -> CallResult:
        """Return the artifact's answer. Raises whatever the artifact raises."""
        return call_artifact(self._traced.module, call, self._seed)

    def compare_refusal(self, call: Call, case: str, error: ModelRaised) -> None:
        """Report an artifact that answers a call which the eager model refused with `error`.

        Raises LimitExceeded if the artifact runs out of memory.
        """
        if self._ledger.has(Kind.ANSWERS_WHERE_EAGER_RAISES, call.method):
            return
        try:
            call_artifact(self._traced.module, call, self._seed)
        except Exception as refusal:
            if is_out_of_memory(refusal):
                raise out_of_memory_error(refusal) from refusal
            return
        self._ledger.findings.append(differences.answers_where_eager_raises(call.method, case, error.failure()))

    def record(self, call: Call, case: str, compared: ComparisonResult, *, in_contract: bool) -> None:
        """Enter the comparison, and a finding for the method's first difference inside, and outside, its contract.

        The comparisons list all cases, so further differences need no finding.
        """
        difference = compared.difference
        self._ledger.comparisons.append(comparison_of(call.method, case, compared, in_contract=in_contract))
        without = compared.without_float64
        if without is not None and not self._ledger.has(Kind.ROUNDING_NOT_MEASURED, call.method):
            self._ledger.findings.append(coverage.rounding_not_measured(call.method, case, without))
        kind = Kind.OUTPUT_DIFFERS if in_contract else Kind.OUTPUT_DIFFERS_ELSEWHERE
        if difference is not None and not self._ledger.has(kind, call.method):
            self._ledger.findings.append(
                differences.output_differs(
                    call.method, case, difference, in_contract=in_contract, inputs=[*call.tensors]
                )
            )
            self._ledger.differing[kind, call.method] = call
