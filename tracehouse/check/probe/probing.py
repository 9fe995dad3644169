"""Probing: the eager model and the artifact on the example's shapes with other values."""

from collections.abc import Sequence
from itertools import chain

from tracehouse.check.comparer import Comparer
from tracehouse.check.determinism import Determinism
from tracehouse.check.inputs.layouts import vary_layouts
from tracehouse.check.inputs.patterned_calls import keep_patterns
from tracehouse.check.inputs.probes import ValueBounds, generate_probes
from tracehouse.check.layout_trials import LayoutTrials, findings_of_effects
from tracehouse.check.ledger import Ledger, OfferedCall
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.probe.sensitivity import Sensitivity
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS, CallLimit
from tracehouse.differential.case_names import name_probe
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.findings import coverage
from tracehouse.findings.kinds import Kind

_TIMES_DEEP = 10  # a deep search may take so many times as long; a choice


class Probing:
    """Compares one method on probes. `example_s` is how many seconds one call of the example takes.

    `searching` asks for the probes that search for the other side of a branch, `deep` for far more of all kinds.
    `tolerance` is relative, and `seed` decides random probes.
    """

    def __init__(
        self,
        example: Call,
        example_s: float,
        eager: EagerOracle,
        comparer: Comparer,
        determinism: Determinism,
        ledger: Ledger,
        *,
        searching: bool,
        deep: bool,
        tolerance: float,
        seed: int,
    ) -> None:
        self._example = example
        self._example_s = example_s
        self._eager = eager
        self._comparer = comparer
        self._determinism = determinism
        self._ledger = ledger
        self._searching = searching
        self._deep = deep
        self._tolerance = tolerance
        self._seed = seed
        self._sensitivity = Sensitivity(eager, comparer.answer_of_artifact, example, tolerance=tolerance, seed=seed)

    def run(self, bounds: ValueBounds, budget: Budget, first: Sequence[Call], varied: Call, is_proven: bool) -> None:
        """Compare on every probe for which there is time, and report the others as findings.

        `bounds` has the smallest and the largest integer that the model accepts in each input, and `first` has calls to
        compare on before the probes. `varied` is the example, or a smaller call that stands for it: its values and its
        layouts are varied, in a deep search the example's values. If it `is_proven` that values change nothing, no
        other side of a branch is searched for. Raises LimitExceeded if the artifact runs out of memory.
        """
        limits = CALL_LIMITS
        own = self._limit(limits.probes, budget, _TIMES_DEEP if self._deep else 1)
        within_s = max(limits.probe.seconds, min(limits.probe.times * self._example_s, own.seconds))
        method = self._example.method
        left_out: list[str] = []
        too_slow: list[str] = []
        probes = generate_probes(
            self._example if self._deep else varied,
            searching=self._searching and not is_proven,
            deep=self._deep,
            bounds=bounds,
            seed=self._seed,
        )
        for name, probe in chain(((name_probe("values of another size"), call) for call in first), probes):
            if own.is_spent:
                left_out.append(f"{method} {name}")
            elif (slow := self._compare(name, probe, within_s)) is not None:
                too_slow.append(f"{method} {slow}")
        self._try_layouts(varied, within_s, self._limit(limits.layouts, budget))
        if left_out:
            self._ledger.findings.append(
                coverage.probes_left_out(left_out, f"the probes took over {own.seconds:.3g} s")
            )
        if too_slow:
            self._ledger.findings.append(
                coverage.probes_left_out(too_slow, "eager took far longer on them than on the example")
            )

    def _limit(self, limit: CallLimit, budget: Budget, times: float = 1) -> Budget:
        """Return a budget of the limit, so many times, or of what is left if that is less; at least the usual one."""
        return Budget(min(limit.after(self._example_s) * times, max(limit.seconds, budget.left_s)))

    def _compare(self, name: str, probe: Call, within_s: float, *, refused: bool = False) -> str | None:
        """Compare on one probe. Return the name of what took the eager model too long; None if nothing did.

        If the eager model refuses it, it is tried once more with the patterns of the example's values, `refused` then.
        """
        try:
            answer = self._eager.answer(probe, within_s=within_s)
        except ModelRaised as error:  # such values are none for this model
            self._comparer.compare_refusal(probe, name, error)
            kept = None if refused else keep_patterns(self._example, probe)
            return None if kept is None else self._compare(name, kept, within_s, refused=True)
        except TooSlow:
            return name
        compared = self._comparer.compare(probe, answer)
        difference = compared.difference
        if difference is not None and self._sensitivity.explains(probe, answer, within_s=within_s):
            if not self._ledger.has(Kind.ROUNDING_DECIDES, probe.method):
                self._ledger.findings.append(coverage.rounding_decides(probe.method, name, difference))
            return None
        is_offered = not compared.agrees or not any(one.agrees for one in self._ledger.probes)
        if is_offered and not self._eager.is_repeatable(probe, answer, tolerance=self._tolerance, within_s=within_s):
            return None
        self._comparer.record(probe, name, compared, in_contract=True)
        self._ledger.probes.append(OfferedCall(name, probe, compared.agrees))
        try:
            self._determinism.check_state_left(self._example, name, answer, within_s)
            self._determinism.check_random(probe, name, answer, within_s)
        except ModelRaised:
            return None  # on other random numbers
        except TooSlow:
            return f"{name}, again"
        return None

    def _try_layouts(self, call: Call, within_s: float, budget: Budget) -> None:
        """Try other layouts of the call's inputs, or of the example's if the call does not do.

        Nobody can send such inputs over HTTP, but whoever downloads the archive may have them.
        """
        left_out: list[str] = []
        trials = LayoutTrials(self._eager, self._comparer.artifact, tolerance=self._tolerance, within_s=within_s)
        varied = call if call is self._example or trials.are_right_on(call) else self._example
        effects = [*trials.run(vary_layouts(varied), budget, left_out)]
        self._ledger.findings += findings_of_effects(self._example.method, effects)
        if left_out:
            named = [f"{self._example.method} {name}" for name in left_out]
            self._ledger.findings.append(coverage.layouts_left_out(named, budget.seconds))
