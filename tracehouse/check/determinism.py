"""Determinism: whether the eager model gives the same answer again. Otherwise no artifact can be compared with it."""

from collections.abc import Iterable, Mapping

from tracehouse.check import findings, scripted_graphs
from tracehouse.check.calls import CallResult
from tracehouse.check.comparer import Comparer
from tracehouse.check.ledger import Ledger
from tracehouse.check.oracle import CallObservation, EagerOracle
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.case_names import EXAMPLE, name_draw
from tracehouse.differential.comparison import Difference
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.findings.kinds import Kind
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torchscript.trace import TraceResult

# A model that draws random numbers is called so many times more on its example: one that skips a layer now and then can
# give the same answer twice by chance. The number is a choice.
CALLS_WHERE_RANDOM = 6


class Determinism:
    """Compares answers of the eager model with one another, to find hidden state and random numbers.

    If torch draws them, the artifact must draw the same: `comparer` compares it under equal states of the generators.
    `observed` has two consecutive answers of the eager model to the example of each method. `tolerance` is relative.
    """

    def __init__(
        self,
        eager: EagerOracle,
        comparer: Comparer,
        observed: Mapping[str, CallObservation],
        traced: TraceResult,
        ledger: Ledger,
        tolerance: float,
    ) -> None:
        self._eager = eager
        self._comparer = comparer
        self._observed = observed
        self._traced = traced
        self._ledger = ledger
        self._tolerance = tolerance

    def check_example(self, call: Call) -> None:
        """Compare the answers to the example. If the model draws random numbers, both are called several times more.

        Raises ModelRaised if one of these calls is refused, and LimitExceeded if the artifact runs out of memory.
        """
        observed = self._observed[call.method]
        first, *others = observed.answers
        torch_check = self._traced.torch_check
        stopped = observed.stopped
        for again in others:
            self._compare_draws(call, first, again, "a later one")
        if stopped is None and (first.drew or (torch_check.ran and not torch_check.passed)):
            try:
                self._repeat_example(call, first)
            except TooSlow as slow:
                stopped = str(slow)
        if stopped is not None:
            self._report_stopped(call, stopped)
        # A counter that a later call is going to compare with sixty answers the same until then, on all inputs; and
        # which values of it would change an answer cannot be found by trying.
        if observed.hidden_states and not self._ledger.has(Kind.HIDDEN_STATE, call.method):
            self._ledger.findings.append(findings.state_carried(call, observed.hidden_states))

    def check_still_answers(self, example: Call) -> None:
        """Ask the example once more, after all other calls: what these left, wherever it is, must change no answer.

        A model that loops from some call on does not answer at all now.
        """
        if self._ledger.has(Kind.HIDDEN_STATE, example.method):
            return
        if (refused := self._eager.refusals.changed.get(example.method)) is not None:
            self._ledger.findings.append(findings.hidden_state(example, refused.difference, refused.line))
            return
        was_stopped = self._eager.has_stopped
        try:
            difference = self._find_last_difference(example)
        except TooSlow as slow:
            if was_stopped:
                self._report_stopped(example, str(slow))
        else:
            if difference is not None:
                line = self._line_of_seen_state(example)
                self._ledger.findings.append(findings.hidden_state(example, difference, line))

    def check_state_left(self, example: Call, case: str, answer: CallResult, within_s: float) -> None:
        """Compare the example's answer with one that the copy which gave `answer` gives to the example now.

        What that call left in the copy, such as a cache, must not change it. Raises TooSlow after `within_s` seconds.
        """
        if answer.left_state and not self._ledger.has(Kind.HIDDEN_STATE, example.method):
            self._report_change(
                example,
                self._eager.find_change(
                    example,
                    self._observed[example.method].answers[0],
                    lambda: self._eager.answer_again(example, within_s=within_s),
                    repr(case),
                    self._tolerance,
                ),
            )

    def check_random(self, probe: Call, case: str, answer: CallResult, within_s: float) -> None:
        """Compare the answer to a probe with one under other random numbers, and the artifact under these.

        Probes help, because noise may be lost beside large values and shows beside zeros. Raises ModelRaised if the
        model refuses the second call, TooSlow after `within_s` seconds, and LimitExceeded if the artifact runs out of
        memory.
        """
        if answer.drew and not self._ledger.has(Kind.NONDETERMINISTIC, probe.method):
            again = self._eager.answer(probe, within_s=within_s, draw=1)
            self._compare_draws(probe, answer, again, f"another one on {case!r}")
            self._compare_artifact(probe, case, again, 1)

    def report_draws(self, methods: Iterable[str]) -> None:
        """Report random numbers that changed no answer, such as those of a dropout with a tiny probability."""
        for method in methods:
            is_reported = any(self._ledger.has(kind, method) for kind in (Kind.NONDETERMINISTIC, Kind.STOCHASTIC))
            if method in self._ledger.random_methods and not is_reported:
                graph = self._graph(method)
                drawing = next(scripted_graphs.find_draws(graph), None)
                self._ledger.findings.append(findings.draws_random_numbers(method, drawing))

    def report_generators(self, methods: Iterable[str]) -> None:
        """Report generators of random numbers that the artifact keeps."""
        for method in methods:
            graph = self._graph(method)
            kept = next(scripted_graphs.find_generators(graph), None)
            if kept is not None and not self._ledger.has(Kind.HIDDEN_STATE, method):
                self._ledger.findings.append(findings.generator_kept(method, script_graphs.line_of(kept)))

    def _find_last_difference(self, example: Call) -> Difference | None:
        """Return how the example's answer differs from the first one now. Raises TooSlow."""
        first = self._observed[example.method].answers[0]
        try:
            last = self._eager.answer(example)
        except ModelRaised as error:
            return Difference("output", f"after other calls it raises: {error.detail}")
        if first.drew or last.drew:
            return None
        sides = ("the first call", "one after all others")
        found = self._eager.compare(example, first, last, self._tolerance, sides).difference
        return found if found and self._eager.is_repeatable(example, last, tolerance=self._tolerance) else None

    def _report_stopped(self, call: Call, stopped: str) -> None:
        if not self._ledger.has(Kind.HIDDEN_STATE, call.method):
            line = self._line_of_seen_state(call)
            self._ledger.findings.append(findings.later_call_stopped(call, stopped, line))

    def _repeat_example(self, call: Call, first: CallResult) -> None:
        """Compare answers to the example with other random numbers, and one at last with the same as the first."""
        for draw, again in enumerate(self._eager.repeat(call, CALLS_WHERE_RANDOM)):
            self._compare_draws(call, first, again, "a later one")
            if again.drew and draw:
                self._compare_artifact(call, EXAMPLE, again, draw)
        if first.drew:
            self._compare_states(call, first, self._eager.answer_again(call), "a later one")

    def _compare_artifact(self, call: Call, case: str, eager: CallResult, draw: int) -> None:
        """Compare the artifact under the random numbers of eager's answer. One that keeps numbers differs here."""
        if self._ledger.has(Kind.NONDETERMINISTIC, call.method) or self._ledger.has(Kind.OUTPUT_DIFFERS, call.method):
            return
        compared = self._comparer.compare(call, eager, draw=draw)
        self._comparer.record(call, name_draw(case, draw), compared, in_contract=True)

    def _compare_draws(self, call: Call, first: CallResult, again: CallResult, other: str) -> None:
        """Compare two answers of the eager model to the same inputs, which may have drawn other random numbers."""
        if not (first.drew or again.drew):
            self._compare_states(call, first, again, other)
            return
        self._ledger.random_methods.add(call.method)
        in_python = first.drew_in_python or again.drew_in_python
        difference = self._eager.compare(call, first, again, 0.0, ("the first call", other)).difference
        if difference is None or self._ledger.has(Kind.NONDETERMINISTIC if in_python else Kind.STOCHASTIC, call.method):
            return
        if in_python:
            line = self._eager.find_draw_line(call)
            self._ledger.findings.append(findings.nondeterministic(call, difference, line))
        else:
            graph = self._graph(call.method)
            drawing = next(scripted_graphs.find_draws(graph), None)
            self._ledger.findings.append(findings.stochastic(call, difference, drawing))

    def _compare_states(self, call: Call, first: CallResult, again: CallResult, other: str) -> None:
        """Compare two answers of the eager model to the same inputs with the same random numbers."""
        sides = ("the first call", other)
        self._report_change(call, self._eager.compare(call, first, again, self._tolerance, sides).difference)

    def _report_change(self, call: Call, difference: Difference | None) -> None:
        if difference is not None and not self._ledger.has(Kind.HIDDEN_STATE, call.method):
            self._ledger.findings.append(findings.hidden_state(call, difference, self._line_of_state(call)))

    def _graph(self, method: str) -> script_graphs.Graph:
        """Return the method's graph. Its nodes are valid only as long as it lives."""
        return script_graphs.methods(self._traced.module)[method].inlined_graph

    def _line_of_state(self, call: Call) -> user_lines.Line | None:
        """Return the line that reads what an earlier call left, where that was seen."""
        return self._line_of_seen_state(call) or self._eager.find_state_line(call)

    def _line_of_seen_state(self, call: Call) -> user_lines.Line | None:
        return next((one.line for one in self._observed[call.method].hidden_states if one.line is not None), None)
