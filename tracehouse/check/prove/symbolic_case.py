"""Symbolic cases: the model and its artifact run on the same symbols, which have some sizes to begin with.

The result of a case holds for all sizes that satisfy the conditions which the runs met on their way.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import sympy
import torch

from tracehouse.check.inputs.candidates import generate_candidates
from tracehouse.check.instrumentation.model_checks import is_check
from tracehouse.check.prove.compare_runs import Run, RunsDiffer, compare_runs, fix_numbers
from tracehouse.check.prove.deviations import DEVIATIONS
from tracehouse.check.prove.disguise import disguise
from tracehouse.check.prove.integer_widths import IntegerWidths
from tracehouse.check.prove.interpreter import Program, line_of
from tracehouse.check.prove.known_layouts import KnownLayouts
from tracehouse.check.prove.model_copies import ModelCopies
from tracehouse.check.prove.operator_path import (
    DEPENDS_ON_INPUTS,
    OTHER_READS_MAX,
    OperatorPath,
    ReadReplay,
    comparable_operators,
    record_path,
)
from tracehouse.check.prove.read_variations import RecordedRead, vary_reads
from tracehouse.check.prove.recorder import Recorder, ReplayRead, find_line_of_caller
from tracehouse.check.prove.scalar_tensors import Unsupported
from tracehouse.check.prove.scripted_calls import ScriptedCalls, ScriptNotFollowed
from tracehouse.check.prove.size_follower import SizeFollower
from tracehouse.check.prove.state_history import StateHistory
from tracehouse.check.prove.symbols import LEAST, Condition, SmallDataSizes, Symbols, share_views
from tracehouse.check.prove.unprovable import FindLine, ModelRaisesOnSymbols, ReadsValue, Unprovable
from tracehouse.check.prove.value_numbers import CloseFloats, HeldTensors, ValueNumbers
from tracehouse.check.prove.value_questions import ValueQuestions
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.eager.call import Call
from tracehouse.eager.source import seed_all
from tracehouse.introspection import user_lines
from tracehouse.torch_values import structure

# proven-on-symbols: on real tensors the model was seen to run other operators than on symbols, where it is proven.
# sampled: proven for the values that the model read at the sizes at which the case began, and calls that read others
# agreed there; or but for the last bits of a mean. refused: the model raises. refuted: both answer, and differ, at the
# sizes at which the case began.
CaseStatus = Literal["proven", "proven-on-symbols", "sampled", "refused", "refuted", "unproven"]
# So many calls that read other values must agree, and so many calls are tried to find them.
_AGREEING_MIN = 2
_CALLS_MAX = 60
# So many runs with sizes of 0 and 1 that follow from values: all combinations of three such sizes. A choice.
_DATA_SIZE_RUNS_MAX = 26


_DECIDES = "the model computes otherwise where it reads another value"
_ROUNDED_MEAN = "a mean is computed along with a deviation, which rounds it otherwise than a mean alone"


@dataclass(frozen=True)
class CaseResult:
    """The result of a case: its status, and the conditions under which other sizes have the same status."""

    status: CaseStatus
    sizes: dict[str, int]
    free: dict[str, int]  # the symbols for which the result covers more than their size, and their largest size
    symbols: Symbols | None
    conditions: list[Condition] = field(default_factory=list)
    # Pairs of expressions that were taken as equal; the result holds only where they are.
    assumed_equal: list[tuple[sympy.Basic, sympy.Basic]] = field(default_factory=list)
    # Pairs of floats that were taken as equal and may be rounded otherwise; the result holds only where they are close.
    assumed_close: list[CloseFloats] = field(default_factory=list)
    reason: str = ""
    line: user_lines.Line | None = None
    operator: str = ""
    # Whether a value that the model reads decides, and other values were not seen to agree; and a call that differs.
    value_decides: bool = False
    counterexample: Call | None = None
    # The same case where sizes that follow from values are 0 or 1: the result holds only where their conditions do.
    others: list["CaseResult"] = field(default_factory=list)
    # What the artifact's run made, from which follows what memory a call needs; None where there was no such run.
    artifact_run: Run | None = None
    state_changes_answers: bool = False  # a call changes what later calls answer, so that no proof holds
    tells_widths: bool = True  # whether a run may go otherwise if inputs of INT64 are INT32 (see `integer_widths`)

    def without_conditions_on_data(self) -> "CaseResult":
        """Return the result without the conditions that are about sizes which follow from values."""
        if self.symbols is None:
            return self
        kept = [one for one in self.conditions if not self.symbols.follows_data(one.expression)]
        return replace(self, conditions=kept, assumed_equal=[], assumed_close=[])


class SymbolicCases:
    """The symbolic cases of one target; they share what does not depend on the sizes."""

    def __init__(
        self,
        target: Target,
        groups: Groups,
        program: Program,
        harmless: Collection[user_lines.Line],
        numbers: Collection[float],
        follower: SizeFollower,
        reach: Mapping[str, int] | None = None,
    ) -> None:
        """`harmless` are lines that read values which change nothing in the result at the example's sizes.

        `numbers` are those that such a value may be compared with. `follower` follows the model. `reach` has for names
        of sizes how large they may become beyond those that are wanted.
        """
        copies = ModelCopies(target)
        questions = ValueQuestions(target, copies.take)
        self._setting = _Setting(
            target,
            groups,
            program,
            harmless,
            numbers,
            HeldTensors(),
            copies,
            follower,
            questions,
            ScriptedCalls(),
            StateHistory(target),
            dict(reach or {}),
        )

    def run(self, call: Call, sizes: Mapping[str, int], free: Mapping[str, int]) -> CaseResult:
        """Run the case that begins at these sizes, which the call's inputs have.

        `free` has the names that become symbols, each with the largest size that is wanted of it.
        """
        return _SymbolicCase(self._setting, call, dict(sizes), dict(free)).run()


@dataclass(frozen=True)
class _Setting:
    """What all cases of a target share."""

    target: Target
    groups: Groups
    program: Program
    harmless: Collection[user_lines.Line]
    numbers: Collection[float]
    held: HeldTensors
    copies: ModelCopies
    follower: SizeFollower
    questions: ValueQuestions
    scripted: ScriptedCalls
    history: StateHistory
    reach: Mapping[str, int]


class _SymbolicCase:
    """One case: its runs, and the result that they give."""

    def __init__(self, setting: _Setting, call: Call, sizes: dict[str, int], free: dict[str, int]) -> None:
        self._setting = setting
        self._target = setting.target
        self._copies = setting.copies
        self._call = call
        self._sizes = sizes
        self._free = free
        self._symbols: Symbols | None = None
        self._layouts: KnownLayouts | None = None
        self._numbers: ValueNumbers | None = None
        self._reads: list[RecordedRead] = []  # the values that eager's run took from a real run
        self._is_doubtful = False  # whether it is not known of all of these that they are harmless
        self._caught: list[str] | None = None  # the errors that the model catches on real tensors; None if it raises
        self._artifact_run: Run | None = None
        self._eager_count = 0  # how many value numbers there were when eager's run had ended
        self._rounds_otherwise = False  # whether a value is computed in another way that rounds it otherwise
        self._widths: list[IntegerWidths] = []  # of all runs
        self._small: SmallDataSizes = ()  # of the sizes that follow from values, those that are 0 or 1

    def run(self) -> CaseResult:
        self._setting.follower.take_caught()
        try:
            path = record_path(self._copies.take(), self._call, self._target.eager.seed)
        except Exception as error:  # noqa: BLE001 - submitted code: it refuses these sizes
            return self._refused_result(error)
        self._caught = self._setting.follower.take_caught()
        if self._state_changes_answers():
            reason = "what a call leaves in the model changes what a later one of other sizes answers"
            return replace(self._result("unproven", reason), state_changes_answers=True)
        try:
            return self._run_both(path)
        except Unprovable as unprovable:
            result = self._result("unproven", unprovable.reason, unprovable.line)
            return replace(result, value_decides=isinstance(unprovable, ReadsValue))
        except RunsDiffer as difference:
            if self._is_doubtful:
                return self._refused_read(self._reads[0].line)
            # The computations differ. Whether the answers do is tried at the sizes at which the case began.
            if not self._answers_agree():
                return self._result("refuted", difference.reason, difference.line, difference.operator)
            if self._small:  # values of the call need not decide such sizes, so it shows nothing of them
                result = self._result("unproven", difference.reason, difference.line, difference.operator)
                return replace(result, value_decides=True)
            deciding = self._find_read_of_artifact(path)
            if deciding is not None:  # where that value is read, both compute the same
                return self._judge_by_calls(deciding, path, alike=True)
            return self._result("unproven", difference.reason, difference.line, difference.operator)

    def _run_both(self, path: OperatorPath) -> CaseResult:
        eager = self._compare_both(path)
        if not self._answers_agree():
            raise RunsDiffer("on tensors without values both compute the same, and on real ones they differ", None)
        others, runs = self._run_with_small_data_sizes(path) if self._open_symbols().data_sizes else ([], [])
        return replace(self._judge(eager, path, runs), others=others)

    def _compare_both(self, path: OperatorPath) -> Run:
        """Run both on symbols, and return eager's run. Raises RunsDiffer, and Unprovable."""
        eager = self._run_eager(path)
        while single := {
            name: size for name, size in self._open_symbols().single_sizes().items() if name in self._free
        }:
            # The run left these symbols one size. It begins again with that number, so that both runs see it.
            for name in single:
                del self._free[name]
            eager = self._run_eager(path)
        self._eager_count = self._open_numbers().count()
        artifact = self._artifact_run = self._run_artifact(eager, keeps_trail=True)
        self._refuse_conditions_on_data()
        compare_runs(eager, artifact, self._open_numbers(), self._open_symbols(), eager_count=self._eager_count)
        self._rounds_otherwise |= self._open_numbers().has_other_ways(DEVIATIONS)
        if eager.recorder.writes_held_tensors():
            raise Unprovable("the model writes what it keeps for the next call")
        return eager

    def _judge(self, eager: Run, path: OperatorPath, others: Sequence[Run]) -> CaseResult:
        """Return the result where both compute the same on symbols: what the model reads may still decide.

        `others` are eager's runs with small sizes that follow from values. The real call may be as one of them.
        """
        judged = self._judge_doubtful_reads(eager, path) if self._is_doubtful else self._judge_reads(eager, path)
        if judged is not None:
            return judged
        other_paths = [_describe_other_path(path, run.operators) for run in (eager, *others)]
        if None not in other_paths:
            return self._result("proven-on-symbols", other_paths[0] or "")
        if self._rounds_otherwise:
            return self._result("sampled", _ROUNDED_MEAN)
        return self._result("proven")

    def _run_with_small_data_sizes(self, path: OperatorPath) -> tuple[list[CaseResult], list[Run]]:
        """Run the case where sizes that follow from values are 0 and 1, in all combinations.

        Return the results, and eager's runs.

        Raises RunsDiffer, and Unprovable, also if the model reads values: they would be varied in one run alone.
        """
        self._refuse_reads_beside_data_sizes()
        first = self._symbols, self._numbers, self._artifact_run
        results: list[CaseResult] = []
        runs: list[Run] = []
        left = [*_smaller((), self._open_symbols().data_sizes)]
        while left:
            if len(results) >= _DATA_SIZE_RUNS_MAX:
                raise Unprovable("values decide more sizes than are followed")
            self._small = left.pop(0)
            runs.append(self._compare_both(path))
            self._refuse_reads_beside_data_sizes()
            results.append(self._result("proven"))
            left += _smaller(self._small, self._open_symbols().data_sizes)
        self._small = ()
        self._symbols, self._numbers, self._artifact_run = first
        return results, runs

    def _refuse_reads_beside_data_sizes(self) -> None:
        if self._reads:
            raise ReadsValue("the model reads values, and others decide a size", self._reads[0].line)

    def _refuse_conditions_on_data(self) -> None:
        """Raise ReadsValue if something followed from a size that values decide: other values have another size."""
        condition = self._open_symbols().find_condition_on_data()
        if condition is not None:
            raise ReadsValue("what follows depends on a size that values decide", condition.line)

    def _state_changes_answers(self) -> bool:
        """Whether the call that was just made changes what the model answers to others, or others change its answer."""
        changes_state = not self._copies.is_unchanged()
        beside = self._call_beside() if changes_state and self._free else None
        return self._setting.history.shows_effect(self._call, beside, changes_state=changes_state)

    def _call_beside(self) -> Call:
        """Return a call of other sizes, which are probably of the same case."""
        other = {
            name: size + 1 if size < self._free[name] else size - 1
            for name, size in self._sizes.items()
            if name in self._free
        }
        return self._setting.groups.resize(self._target.call, {**self._sizes, **other}, self._target.seed)

    # Values that the model reads, of which the example's sizes show no effect.

    def _judge_reads(self, eager: Run, path: OperatorPath) -> CaseResult | None:
        """Return the result where the model reads a value on which what it computes depends; None if it reads none.

        The model is run on the same symbols again, and reads other values. What these runs assume of the sizes counts
        among the conditions of the case.
        """
        asked = self._setting.questions.find_deciding(self._call) if self._reads else None
        if asked is not None:
            # Calls cannot show whether both sides are right: nearly none may take the other one.
            return replace(self._result("unproven", asked, self._reads[0].line), value_decides=True)
        for variation in vary_reads(self._reads, self._setting.numbers):
            line = next(iter(variation.values))[0]
            for one in (variation, replace(variation, others=True)):
                replay = ReadReplay(path, self._setting.harmless, one)
                reason = self._describe_effect(eager, replay)
                if reason is not None and variation.is_combined:  # hardly a call reads just these truths together
                    return replace(self._result("unproven", reason, line), value_decides=True)
                if reason is not None:
                    return self._judge_by_calls(Unprovable(reason, line), path)
                if not replay.met_others:
                    break
        return None

    def _judge_doubtful_reads(self, eager: Run, path: OperatorPath) -> CaseResult | None:
        """Return the result where a truth decides that is not known to be harmless; None if none decides.

        Then nothing is left open: the model was run with each combination of the truths that it reads.
        """
        for variation in vary_reads(self._reads, ()):
            replay = ReadReplay(path, self._setting.harmless, variation)
            if self._describe_effect(eager, replay) is not None or replay.met_others:
                return self._refused_read(next(iter(variation.values))[0])
        return None

    def _refused_read(self, line: user_lines.Line | None) -> CaseResult:
        return replace(self._result("unproven", DEPENDS_ON_INPUTS, line), value_decides=True)

    def _find_read_of_artifact(self, path: OperatorPath) -> Unprovable | None:
        """Return a read of which eager computes what the artifact does where it reads another value; None without one.

        It is so where eager leaves a mask out that hides nothing at these sizes, and the artifact never does.
        """
        for variation in vary_reads(self._reads, self._setting.numbers):
            try:
                run = self._run_on_symbols(ReadReplay(path, self._setting.harmless, variation))
            except (Unprovable, ScriptNotFollowed):
                continue
            if self._artifact_computes_as(run):
                return Unprovable(_DECIDES, next(iter(variation.values))[0])
        return None

    def _describe_effect(self, eager: Run, replay: ReadReplay) -> str | None:
        """Return what other values than those that were read change; None where they change nothing.

        They change nothing either where the artifact computes what eager computes on them. A check that the model fails
        then changes nothing, if it is known that the read is harmless.
        """
        try:
            run = self._run_on_symbols(replay, eager)
        except ScriptNotFollowed:
            return "where it reads another value, it calls a script that is not run on symbols"
        except ModelRaisesOnSymbols as error:
            is_checked = error.__cause__ is not None and is_check(error.__cause__) and not self._is_doubtful
            return None if is_checked and not replay.varies_sizes else f"where it reads another value, {error.reason}"
        except Unprovable as error:
            return f"where it reads another value, {error.reason}"
        computes_the_same = _numbers_of(run) == _numbers_of(eager)
        if computes_the_same and eager.recorder.assumed <= run.recorder.assumed:
            return None
        if eager.recorder.assumed != run.recorder.assumed and self._artifact_computes_as(run):
            return None
        return _DECIDES

    def _artifact_computes_as(self, eager: Run) -> bool:
        """Whether the artifact computes what this run of eager's does, where all is true that it read as true."""
        count = self._open_numbers().count()
        try:
            artifact = self._run_artifact(eager)
            compare_runs(eager, artifact, self._open_numbers(), self._open_symbols(), eager_count=count)
        except (RunsDiffer, Unprovable):
            return False
        return True

    def _judge_by_calls(self, deciding: Unprovable, path: OperatorPath, *, alike: bool = False) -> CaseResult:
        """Return the result where a value that the model reads decides: calls show whether both sides are right.

        They are calls that read other values than the case's own; if `alike`, other calls that read the same.
        """
        agreed = 0
        reads_max = len(path.reads) + OTHER_READS_MAX
        for _, call in islice(generate_candidates(self._call, self._setting.numbers), _CALLS_MAX):
            try:
                other = record_path(self._copies.take(), call, self._target.eager.seed, reads_max=reads_max)
            except Exception:  # noqa: BLE001 - submitted code: it refuses these values, or would not end
                continue
            if (repr(other.reads) == repr(path.reads)) is not alike:
                continue
            if not self._answers_agree(call):
                result = self._result("refuted", deciding.reason, deciding.line)
                return replace(result, value_decides=True, counterexample=call)
            agreed += 1
            if agreed > _AGREEING_MIN:
                return self._result("sampled", deciding.reason, deciding.line)
        return replace(self._result("unproven", deciding.reason, deciding.line), value_decides=True)

    # The runs.

    def _begin(self) -> None:
        largest = {name: max(size, self._setting.reach.get(name, size)) for name, size in self._free.items()}
        self._symbols = Symbols(self._sizes, largest, self._small)
        self._layouts = KnownLayouts(self._symbols.mode)
        samples = [
            self._sizes,
            *({**self._sizes, **{name: self._sample(name, place) for name in self._free}} for place in range(3)),
        ]
        self._numbers = ValueNumbers(self._setting.held, self._symbols, samples)

    def _sample(self, name: str, place: int) -> int:
        """Return a wanted size: a different one for each symbol and each place, as far as there are so many."""
        highest = self._free[name]
        # Primes, so that the samples of several symbols stand in no simple relation.
        spread = (7919 * (place + 1) + 104729 * (1 + list(self._free).index(name))) % 10007
        return LEAST + spread % max(1, highest - LEAST + 1)

    def _open_symbols(self) -> Symbols:
        assert self._symbols is not None
        return self._symbols

    def _open_numbers(self) -> ValueNumbers:
        assert self._numbers is not None
        return self._numbers

    def _start(
        self,
        find_line: FindLine,
        replay_read: ReplayRead,
        before: Run | None,
        assumed: Collection[int] = (),
        *,
        keeps_trail: bool = False,
    ) -> tuple[Recorder, dict[str, torch.Tensor]]:
        """Return the recorder of a run, and its inputs.

        The tensors of the run before serve again, unless a shape was changed in place.
        """
        assert self._layouts is not None
        earlier = None if before is None or before.recorder.changes_shapes_in_place else before
        recorder = Recorder(
            self._open_numbers(),
            self._open_symbols(),
            self._layouts,
            find_line=find_line,
            replay_read=replay_read,
            earlier=None if earlier is None else earlier.recorder,
            assumed=assumed,
            keeps_trail=keeps_trail,
        )
        self._widths.append(recorder.widths)
        inputs = self._empty_inputs() if earlier is None else earlier.inputs
        for path, tensor in inputs.items():
            recorder.name_input(tensor, path)
        return recorder, inputs

    def _empty_inputs(self) -> dict[str, torch.Tensor]:
        shapes = self._setting.groups.shapes
        return {path: self._open_symbols().empty(shapes[path], tensor) for path, tensor in self._call.tensors.items()}

    def _run_eager(self, path: OperatorPath) -> Run:
        """Run the model on symbols. Raises Unprovable if the run cannot be completed or followed."""
        while True:
            self._begin()
            replay = ReadReplay(path, self._setting.harmless)
            with suppress(ScriptNotFollowed):  # each time, one more script is left to torch
                run = self._run_on_symbols(replay)
                self._reads, self._is_doubtful = replay.answered, replay.is_doubtful
                return run

    def _run_on_symbols(self, replay: ReadReplay, before: Run | None = None) -> Run:
        """Run the model, which reads what `replay` answers, perhaps with results of a run before. Raises Unprovable."""
        symbols = self._open_symbols()
        recorder, inputs = self._start(find_line_of_caller, replay, before)
        symbols.find_lines_with(find_line_of_caller)
        module = self._copies.take()
        seed_all(self._target.eager.seed)
        self._setting.follower.take_caught()
        sharing = nullcontext() if before is None else share_views()
        try:
            scripted = self._setting.scripted.follow(recorder)
            with (
                symbols.activate(),
                disguise(recorder.stop, recorder.widths.tell),
                recorder.widths.watch(),
                sharing,
                recorder,
                scripted,
                self._setting.follower.symbolic(),
            ):
                outputs = fix_numbers(self._call.with_tensors(inputs).run(module))
                self._check_caught()
                operators = [*recorder.operators]
                if not self._copies.is_unchanged():
                    replay.begin()
                    self._call_again(module, outputs, inputs, recorder)
        except Exception as error:
            if recorder.stop_reason is not None:
                raise recorder.stop_reason from error
            raise ModelRaisesOnSymbols(
                f"on symbols the model raises {_describe_error(error)}", user_lines.line_of_error(error)
            ) from error
        if recorder.stop_reason is not None:
            raise recorder.stop_reason
        recorder.widths.tell([*structure.tensors(outputs, "output").values()])
        recorder.end()
        return Run(outputs, recorder, inputs, operators)

    def _check_caught(self) -> None:
        """Raise Unprovable if the model caught other errors than on real tensors: a symbol raises some of its own."""
        caught = self._setting.follower.take_caught()
        if self._caught is not None and caught != self._caught:
            raise Unprovable(f"on symbols the model catches {', '.join(caught) or 'no error'}")

    def _call_again(
        self, module: torch.nn.Module, outputs: Any, inputs: dict[str, torch.Tensor], recorder: Recorder
    ) -> None:
        """Call the model again after a call that changed its state: raise Unprovable unless it answers the same."""
        first = _output_numbers(outputs, recorder)
        recorder.seed()
        again = _output_numbers(fix_numbers(self._call.with_tensors(inputs).run(module)), recorder)
        if first != again:
            raise Unprovable("what a call leaves in the model changes what the next one computes")

    def _run_artifact(self, eager: Run, *, keeps_trail: bool = False) -> Run:
        """Run the artifact on the same symbols; it takes as true what this run of eager's read as true.

        Raises Unprovable if the run cannot be followed, and RunsDiffer if the artifact raises.
        """
        symbols = self._open_symbols()
        recorder: Recorder

        def find_line() -> user_lines.Line | None:
            return None if recorder.position is None else line_of(recorder.position)

        eager_count = self._open_numbers().count()
        recorder, inputs = self._start(find_line, _refuse_read, eager, eager.recorder.assumed, keeps_trail=keeps_trail)
        symbols.find_lines_with(find_line)
        try:
            with symbols.activate(), disguise(recorder.stop, recorder.widths.tell), share_views(), recorder:
                arguments = self._call.with_tensors(inputs).artifact_args_by_name
                outputs = self._call.restore_outputs(self._setting.program.run(arguments, recorder))
        except Unsupported as error:
            raise Unprovable(f"the artifact has what is not run on symbols: {error}", find_line()) from error
        except Exception as error:
            node = recorder.first_position_since(eager_count) or recorder.position
            kind = "" if node is None else node.kind()
            line = find_line() if node is None else line_of(node)
            raise RunsDiffer(f"the artifact raises {_describe_error(error)}", line, kind) from error
        recorder.widths.tell([*structure.tensors(outputs, "output").values()])
        recorder.end()
        return Run(outputs, recorder, inputs, recorder.operators)

    # The results.

    def _answers_agree(self, call: Call | None = None) -> bool:
        """Whether both give the same answer to the case's call, or to another one, on its real tensors.

        Raises LimitExceeded.
        """
        call = self._call if call is None else call
        return self._target.ask_artifact(call, self._target.eager.answer(call)).compared.agrees

    def _refused_result(self, error: Exception) -> CaseResult:
        """Return the result for sizes that the model refuses.

        If the model raises on symbols as well, the conditions up to there cover the other sizes that it refuses.
        """
        try:
            self._run_eager(OperatorPath([], []))
        except ModelRaisesOnSymbols:
            return self._result("refused", _describe_error(error), user_lines.line_of_error(error))
        except Unprovable:
            pass
        self._free = {}
        self._symbols = None
        return self._result("refused", _describe_error(error), user_lines.line_of_error(error))

    def _result(
        self, status: CaseStatus, reason: str = "", line: user_lines.Line | None = None, operator: str = ""
    ) -> CaseResult:
        return CaseResult(
            status,
            self._sizes,
            self._free,
            self._symbols,
            self._symbols.conditions() if self._symbols else [],
            self._numbers.assumed_equal if self._numbers else [],
            self._numbers.assumed_close if self._numbers else [],
            reason,
            line,
            operator,
            artifact_run=self._artifact_run,
            tells_widths=any(widths.are_told for widths in self._widths),
        )


def _smaller(small: SmallDataSizes, count: int) -> Iterator[SmallDataSizes]:
    """Yield the next combinations after one that was run: one of the sizes behind it is 0 or 1, those before are more.

    `count` is how many sizes follow from values.
    """
    for place in range(len(small), count):
        for size in (0, 1):
            yield (*small, *[None] * (place - len(small)), size)


def _refuse_read(line: user_lines.Line | None, known: Any, _: torch.dtype) -> Any:
    """Answer a value read of the artifact's, which must not depend on the inputs. Raises Unprovable where it does."""
    if known is None:
        raise Unprovable("the artifact reads a value that depends on its inputs", line)
    return known


def _describe_other_path(path: OperatorPath, operators: list[str]) -> str | None:
    """Return where the run on symbols takes another path than the run on real tensors did; None where it does not."""
    real, symbolic = comparable_operators(path.operators), comparable_operators(operators)
    if real == symbolic:
        return None
    place = next((place for place, (one, other) in enumerate(zip(real, symbolic, strict=False)) if one != other),
                 min(len(real), len(symbolic)))  # fmt: skip
    real_operator = real[place] if place < len(real) else "nothing"
    symbolic_operator = symbolic[place] if place < len(symbolic) else "nothing"
    return (
        f"on tensors without values the model takes another path: {symbolic_operator} in the place of {real_operator}"
    )


def _numbers_of(run: Run) -> tuple[dict[str, int], tuple[dict[str, int], str]]:
    """Return the numbers of the inputs as the run left them, and those of its outputs."""
    inputs = {name: run.recorder.number(tensor) for name, tensor in run.inputs.items()}
    return inputs, _output_numbers(run.outputs, run.recorder)


def _output_numbers(outputs: Any, recorder: Recorder) -> tuple[dict[str, int], str]:
    """Return the numbers of the tensors and, as text, how they stand beside which constants."""
    numbers = {path: recorder.number(tensor) for path, tensor in structure.tensors(outputs, "output").items()}
    return numbers, structure.describe(outputs, "output").model_dump_json()


def _describe_error(error: BaseException) -> str:
    return user_lines.shorten(
        f"{type(error).__name__}: {user_lines.public_error_text(error).strip().partition(chr(10))[0]}", 300
    )
