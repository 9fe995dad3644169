"""The check of one model, from its examples to what is known of its trace.

The tracing program runs it on a submission, and `tracehouse.check` runs it on a live model.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from tracehouse.check.check import Check, CheckResult
from tracehouse.check.pipeline import ReportLayer, RequestedSizes
from tracehouse.contract.contract import Contract
from tracehouse.eager import observed_contract
from tracehouse.eager.submission import LoadedSubmission
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import CheckOptions, TraceOptions
from tracehouse.torchscript.candidate import Candidate, candidate_of


class ModelCheck:
    """The check of one loaded model: call `trace` first, and then `run`.

    `requested` says by method which sizes are to vary.
    """

    def __init__(
        self,
        loaded: LoadedSubmission,
        conversion: Conversion,
        options: TraceOptions,
        check: CheckOptions,
        requested: Mapping[str, RequestedSizes],
    ) -> None:
        self._loaded = loaded
        self._conversion = conversion
        self._options = options
        self._options_of_check = check
        self._requested = requested
        self._check = Check(loaded.model, loaded.calls, tolerance=check.check_tolerance, seed=options.seed)

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """The eager model's outputs on the examples, by method.

        Raises ModelRaised if the model refuses an example, and UnsupportedOutput if no artifact could return an output.
        """
        outputs = self._check.run_examples()
        for method, call in self._loaded.calls.items():
            module, strict = self._loaded.model.module, self._options.strict
            observed_contract.check_outputs(module, call, outputs[method], strict=strict)
        return outputs

    @property
    def contract(self) -> Contract:
        """The contract as the examples show it. Raises what `outputs` raises."""
        return observed_contract.observe(self._loaded.calls, self.outputs)

    def trace(self) -> Candidate:
        """Return the candidate for the artifact. Raises TraceError if the model cannot be traced or scripted."""
        return candidate_of(self._loaded, self._options, self._options_of_check, self._conversion, self.outputs)

    def run(self, candidate: Candidate, report: ReportLayer) -> CheckResult:
        """Compare the candidate with the eager model; `report` is called with each layer when it ends.

        Call `trace` first. Raises LimitExceeded if the artifact runs out of memory.
        """
        calls, options = self._loaded.check_calls, self._options_of_check
        checked = self._check.run(candidate, calls, options, self._requested, report)
        found = [*candidate.findings, *checked.check.findings]
        return replace(checked, check=checked.check.model_copy(update={"findings": found}))
