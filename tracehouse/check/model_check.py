"""The check of one model, from its examples to what is known of its trace.

The tracing program runs it on a submission, and `tracehouse.check` runs it on a live model.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from tracehouse.check.check import Check, CheckResult
from tracehouse.check.pipeline import ReportLayer, RequestedSizes
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.contract.contract import Contract
from tracehouse.differential.call_limits import first_call_s, later_call, submitted_call
from tracehouse.differential.named_budgets import MOST_S, budget_seconds, first_budget_s
from tracehouse.eager import observed_contract
from tracehouse.eager.submission import LoadedSubmission
from tracehouse.errors import LimitExceeded
from tracehouse.findings.verdict import verdict_of
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import CheckOptions, TraceOptions
from tracehouse.step_times import step
from tracehouse.torch_values import structure
from tracehouse.torchscript.candidate import Candidate, candidate_of


class ModelCheck:
    """The check of one loaded model: call `trace` first, and then `run`.

    `requested` says by method which sizes are to vary. With `bounds_first_call`, a first call and a trace that take
    longer than the budget are stopped too. Without it, whoever started this process ends it. A named budget is at most
    `budget_most_s` seconds.
    """

    def __init__(
        self,
        loaded: LoadedSubmission,
        conversion: Conversion,
        options: TraceOptions,
        check: CheckOptions,
        requested: Mapping[str, RequestedSizes],
        *,
        bounds_first_call: bool = False,
        budget_most_s: float = MOST_S,
    ) -> None:
        self._loaded = loaded
        self._conversion = conversion
        self._options = options
        self._options_of_check = check
        self._requested = requested
        self._budget_most_s = budget_most_s
        first_budget = first_budget_s(check)
        self._first_s = first_call_s(first_budget) if bounds_first_call else None
        self._check = Check(
            loaded.model,
            loaded.calls,
            check,
            seed=options.seed,
            call_seed=options.call_seed,
            later=later_call(first_budget),
            is_traced=conversion.mode == "trace",
        )

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """The eager model's outputs on the examples, by method.

        Raises ModelRaised if the model refuses an example, LimitExceeded if a first call is stopped, and
        UnsupportedOutput if no artifact could return an output.
        """
        try:
            with step("first calls"):
                outputs = self._check.run_examples(self._first_s)
        except TooSlow as slow:
            raise too_slow("the first call on the example inputs", slow) from slow
        for method, call in self._loaded.calls.items():
            observed_contract.check_outputs(self._loaded.model.module, call, outputs[method])
        return outputs

    @cached_property
    def submission(self) -> LoadedSubmission:
        """The submission with calls that know what their methods return. Raises what `outputs` raises."""
        strict = self._options.strict
        returns = {method: structure.describe(outputs, "output") for method, outputs in self.outputs.items()}
        calls = {method: call.returning(returns[method], strict=strict) for method, call in self._loaded.calls.items()}
        check_calls = [
            replace(one, call=one.call.returning(returns[one.call.method], strict=strict))
            for one in self._loaded.check_calls
        ]
        return replace(self._loaded, calls=calls, check_calls=check_calls)

    @property
    def budget_s(self) -> float:
        """The check's limit in seconds of processor time. Raises what `outputs` raises."""
        _ = self.outputs  # the first calls
        return budget_seconds(self._options_of_check, self._check.example_s, self._budget_most_s)

    @property
    def contract(self) -> Contract:
        """The contract as the examples show it. Raises what `outputs` raises."""
        observed = observed_contract.observe(self._loaded.calls, self.outputs)
        return observed.model_copy(update={"without_fast_paths": self._check.without_fast_paths})

    def trace(self) -> Candidate:
        """Return the candidate for the artifact; if torch's own check of the trace has to be stopped, one without it.

        Raises TraceError if the model cannot be traced or scripted.
        """
        check = self._options_of_check
        try:
            return self._trace(check)
        except TooSlow as slow:
            if not check.check_trace:
                raise too_slow("the trace", slow) from slow
            stopped = f"torch's check could not finish: {slow}; our own check decides"
        try:
            candidate = self._trace(check.model_copy(update={"check_trace": False}))
        except TooSlow as slow:
            raise too_slow("the trace", slow) from slow
        torch_check = candidate.traced.torch_check.model_copy(update={"ran": True, "error": stopped})
        return replace(candidate, traced=replace(candidate.traced, torch_check=torch_check))

    def _trace(self, check: CheckOptions) -> Candidate:
        """Return the candidate. Raises TraceError, and TooSlow if it takes too long."""
        outputs, loaded = self.outputs, self.submission
        # torch's check traces and calls the model once more for each example and check input.
        calls_s = self._check.example_s * (2 + len(loaded.check_calls))
        within_s = None if self._first_s is None else submitted_call(self.budget_s).after(calls_s)
        with time_limit(within_s), step("trace and torch's check"):
            return candidate_of(loaded, self._options, check, self._conversion, outputs)

    def run(self, candidate: Candidate, report: ReportLayer) -> CheckResult:
        """Compare the candidate with the eager model; `report` is called with each layer when it ends.

        Call `trace` first. Raises LimitExceeded if the artifact runs out of memory.
        """
        calls, further, options = self.submission.calls, self.submission.check_calls, self._options_of_check
        checked = self._check.run(candidate, calls, further, options, self._requested, report, self.budget_s)
        found = [*candidate.findings, *checked.check.findings]
        verdict = verdict_of(checked.check.comparisons, found)
        return replace(checked, check=checked.check.model_copy(update={"findings": found, "verdict": verdict}))


def too_slow(what: str, slow: TooSlow) -> LimitExceeded:
    """Return the error to raise where nothing can be checked, because `what` was stopped."""
    return LimitExceeded(
        f"{what} was stopped: {slow}",
        limit="time",
        remedy="raise budget_s, or hand in smaller example inputs; a model that never ends cannot be checked",
    )
