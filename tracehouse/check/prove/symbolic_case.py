"""Symbolic cases: the model and its artifact run on the same symbols, which have some sizes to begin with.

The result of a case holds for all sizes that satisfy the conditions which the runs met on their way.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import sympy
import torch

from tracehouse.check.artifact_answer import ask_artifact
from tracehouse.check.calls import call_model
from tracehouse.check.prove.compare_runs import Run, RunsDiffer, compare_runs
from tracehouse.check.prove.interpreter import Program, line_of
from tracehouse.check.prove.model_copies import ModelCopies
from tracehouse.check.prove.operator_path import OperatorPath, ReadReplay, comparable_operators, record_path
from tracehouse.check.prove.recorder import Recorder, find_line_of_caller
from tracehouse.check.prove.scalar_tensors import Unsupported
from tracehouse.check.prove.symbols import LEAST, Condition, Symbols, share_views
from tracehouse.check.prove.unprovable import ModelRaisesOnSymbols, Unprovable
from tracehouse.check.prove.value_numbers import HeldTensors, ValueNumbers
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.eager.call import Call
from tracehouse.eager.source import seed_all
from tracehouse.introspection import user_lines
from tracehouse.torch_values import structure
from tracehouse.torch_values.compare import compare

# proven-on-symbols: on real tensors the model was seen to run other operators than on symbols, where it is proven.
# refused: the model raises. refuted: both answer, and differ, at the sizes at which the case began.
CaseStatus = Literal["proven", "proven-on-symbols", "refused", "refuted", "unproven"]


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
    reason: str = ""
    line: user_lines.Line | None = None
    operator: str = ""
    state_changes_answers: bool = False  # a call changes what later calls answer, so that no proof holds


class SymbolicCases:
    """The symbolic cases of one target; they share what does not depend on the sizes."""

    def __init__(self, target: Target, groups: Groups, program: Program, harmless: Collection[user_lines.Line]) -> None:
        """`harmless` are lines that read values which change nothing in the result."""
        self._setting = _Setting(target, groups, program, harmless, HeldTensors(), ModelCopies(target))

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
    held: HeldTensors
    copies: ModelCopies


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
        self._numbers: ValueNumbers | None = None
        self._eager_count = 0  # how many value numbers there were when eager's run had ended

    def run(self) -> CaseResult:
        try:
            path = record_path(self._copies.take(), self._call, self._target.seed)
        except Exception as error:  # noqa: BLE001 - submitted code: it refuses these sizes
            return self._refused_result(error)
        if self._changes_next_answer():
            reason = "what a call leaves in the model changes what a later one of other sizes answers"
            return replace(self._result("unproven", reason), state_changes_answers=True)
        try:
            return self._run_both(path)
        except Unprovable as unprovable:
            return self._result("unproven", unprovable.reason, unprovable.line)
        except RunsDiffer as difference:
            # The computations differ. Whether the answers do is tried at the sizes at which the case began.
            status: CaseStatus = "unproven" if self._answers_agree() else "refuted"
            return self._result(status, difference.reason, difference.line, difference.operator)

    def _run_both(self, path: OperatorPath) -> CaseResult:
        eager = self._run_eager(path)
        while single := {
            name: size for name, size in self._open_symbols().single_sizes().items() if name in self._free
        }:
            # The run left these symbols one size. It begins again with that number, so that both runs see it.
            for name in single:
                del self._free[name]
            eager = self._run_eager(path)
        artifact = self._run_artifact(eager)
        assert self._numbers is not None
        compare_runs(eager, artifact, self._numbers, self._open_symbols(), eager_count=self._eager_count)
        if eager.recorder.writes_held_tensors():
            raise Unprovable("the model writes what it keeps for the next call")
        if not self._answers_agree():
            raise RunsDiffer("on tensors without values both compute the same, and on real ones they differ", None)
        other_path = _describe_other_path(path, eager.operators)
        if other_path is not None:
            return self._result("proven-on-symbols", other_path)
        return self._result("proven")

    def _changes_next_answer(self) -> bool:
        """Whether the call that was just made changes what the model answers to the example."""
        if self._copies.is_unchanged():
            return False
        example, seed = self._target.call, self._target.seed
        after = call_model(self._copies.last(), example, seed, within_s=None)
        return not compare(self._target.eager.answer(example).outputs, after.outputs, self._target.tolerance).agrees

    # The runs.

    def _begin(self) -> None:
        self._symbols = Symbols(self._sizes, self._free)
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

    def _empty_inputs(self, recorder: Recorder) -> dict[str, torch.Tensor]:
        shapes = self._setting.groups.shapes
        inputs = {path: self._open_symbols().empty(shapes[path], tensor) for path, tensor in self._call.tensors.items()}
        return _name_inputs(inputs, recorder)

    def _run_eager(self, path: OperatorPath) -> Run:
        """Run the model on symbols. Raises Unprovable if the run cannot be completed or followed."""
        self._begin()
        symbols = self._open_symbols()
        assert self._numbers is not None
        replay = ReadReplay(path, self._setting.harmless)
        recorder = Recorder(self._numbers, symbols, find_line=find_line_of_caller, replay_read=replay)
        inputs = self._empty_inputs(recorder)
        symbols.find_lines_with(find_line_of_caller)
        module = self._copies.take()
        seed_all(self._target.seed)
        try:
            with symbols.activate(), recorder:
                outputs = self._call.with_tensors(inputs).run(module)
                operators = [*recorder.operators]
                if not self._copies.is_unchanged():
                    self._call_again(module, outputs, inputs, recorder)
        except Exception as error:
            if recorder.stop_reason is not None:
                raise recorder.stop_reason from error
            raise ModelRaisesOnSymbols(
                f"on symbols the model raises {_describe_error(error)}", user_lines.line_of_error(error)
            ) from error
        if recorder.stop_reason is not None:
            raise recorder.stop_reason
        recorder.end()
        return Run(outputs, recorder, inputs, operators)

    def _call_again(
        self, module: torch.nn.Module, outputs: Any, inputs: dict[str, torch.Tensor], recorder: Recorder
    ) -> None:
        """Call the model again after a call that changed its state: raise Unprovable unless it answers the same."""
        first = _output_numbers(outputs, recorder)
        again = _output_numbers(self._call.with_tensors(inputs).run(module), recorder)
        if first != again:
            raise Unprovable("what a call leaves in the model changes what the next one computes")

    def _run_artifact(self, eager: Run) -> Run:
        """Run the artifact on the same symbols.

        Raises Unprovable if the run cannot be followed, and RunsDiffer if the artifact raises.
        """
        symbols = self._open_symbols()
        recorder: Recorder

        def find_line() -> user_lines.Line | None:
            return None if recorder.position is None else line_of(recorder.position)

        # The tensors of eager's run serve again, unless a shape was changed in place.
        earlier = None if eager.recorder.changes_shapes_in_place else eager.recorder
        assert self._numbers is not None
        recorder = Recorder(self._numbers, symbols, find_line=find_line, replay_read=_refuse_read, earlier=earlier)
        eager_count = self._numbers.count()
        inputs = self._empty_inputs(recorder) if earlier is None else _name_inputs(eager.inputs, recorder)
        symbols.find_lines_with(find_line)
        try:
            with symbols.activate(), share_views(), recorder:
                arguments = self._call.with_tensors(inputs).artifact_args_by_name
                outputs = self._setting.program.run(arguments, recorder)
        except Unsupported as error:
            raise Unprovable(f"the artifact has what is not run on symbols: {error}", find_line()) from error
        except Exception as error:
            node = recorder.first_position_since(eager_count) or recorder.position
            kind = "" if node is None else node.kind()
            line = find_line() if node is None else line_of(node)
            raise RunsDiffer(f"the artifact raises {_describe_error(error)}", line, kind) from error
        recorder.end()
        self._eager_count = eager_count
        return Run(outputs, recorder, inputs, recorder.operators)

    # The results.

    def _answers_agree(self) -> bool:
        """Whether both give the same answer to the call on its real tensors. Raises LimitExceeded."""
        answer = self._target.eager.answer(self._call)
        target = self._target
        asked = ask_artifact(target.artifact, self._call, answer, tolerance=target.tolerance, seed=target.seed)
        return asked.compared.agrees

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
            reason,
            line,
            operator,
        )


def _name_inputs(inputs: dict[str, torch.Tensor], recorder: Recorder) -> dict[str, torch.Tensor]:
    for path, tensor in inputs.items():
        recorder.name_input(tensor, path)
    return inputs


def _refuse_read(line: user_lines.Line | None, known: Any) -> Any:
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


def _output_numbers(outputs: Any, recorder: Recorder) -> dict[str, int]:
    return {path: recorder.number(tensor) for path, tensor in structure.tensors(outputs, "output").items()}


def _describe_error(error: BaseException) -> str:
    return user_lines.shorten(
        f"{type(error).__name__}: {user_lines.public_error_text(error).strip().partition(chr(10))[0]}", 300
    )
