"""A case: the model and its artifact run on the same symbols, from one point on; what comes of it holds wherever the
conditions do that were met on the way."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from tracehouse.check.calls import call_artifact, call_model
from tracehouse.check.prove.interpreter import Program, line_of
from tracehouse.check.prove.operator_path import Path, Replay, path_of, told
from tracehouse.check.prove.recorder import Held, Numbers, Recorder, Unprovable, of_frame
from tracehouse.check.prove.scalar_tensors import Unsupported
from tracehouse.check.prove.symbols import LEAST, Condition, Symbols, views_shared
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.differential.comparison import ANSWER_NAMES, find_nesting_difference
from tracehouse.eager import state_snapshot
from tracehouse.eager.call import Call
from tracehouse.eager.source import seed_all
from tracehouse.introspection import user_lines
from tracehouse.torch_values import structure
from tracehouse.torch_values.compare import compare

Ends = Literal["proven", "alike", "refused", "refuted", "unproven"]


@dataclass(frozen=True)
class Outcome:
    """`alike` is proven of the model as it runs on symbols, where it runs otherwise on real tensors."""

    ends: Ends
    sizes: dict[str, int]
    free: dict[str, int]  # the symbols that the outcome is not of these sizes alone, and their largest size
    symbols: Symbols | None
    conditions: list[Condition] = field(default_factory=list)
    alike: list[tuple[Any, Any]] = field(default_factory=list)
    why: str = ""
    line: user_lines.Line | None = None
    operator: str = ""
    carries: bool = False  # a call changes what later ones of other sizes answer: no proof holds


@dataclass(frozen=True)
class _Run:
    outputs: Any
    recorder: Recorder
    inputs: dict[str, torch.Tensor]
    operators: list[str]


class _Stop(Exception):
    def __init__(self, why: str, line: user_lines.Line | None, operator: str = "") -> None:
        super().__init__(why)
        self.why, self.line, self.operator = why, line, operator


class _Copies:
    """Of the model, as long as the last one is as it was made."""

    def __init__(self, target: Target) -> None:
        self._model = target.model
        self._last: tuple[torch.nn.Module, Any] | None = None
        self._seen: bool | None = None  # whether it is unchanged, where it was looked at since it was taken

    def take(self) -> torch.nn.Module:
        if self._last is None or not self.is_unchanged():
            module = self._model.fresh()
            self._last = module, self._marks(module)
        self._seen = None
        return self._last[0]

    def last(self) -> torch.nn.Module:
        assert self._last is not None
        return self._last[0]

    def is_unchanged(self) -> bool:
        """By the calls since it was taken."""
        assert self._last is not None
        if self._seen is None:
            module, marks = self._last
            self._seen = bool(self._marks(module) == marks)
        return self._seen

    def _marks(self, module: torch.nn.Module) -> Any:
        return state_snapshot.mark(module), self._model.shared.marks()


class Cases:
    """Of one target."""

    def __init__(self, target: Target, groups: Groups, program: Program, harmless: Collection[user_lines.Line]) -> None:
        self._target = target
        self._groups = groups
        self._program = program
        self._harmless = harmless
        self._held = Held()
        self._copies = _Copies(target)

    def case(self, call: Call, sizes: Mapping[str, int], free: Mapping[str, int]) -> Outcome:
        """`call` is of these sizes; `free` are the symbols that stand for more than theirs, with their largest size."""
        attempt = _Attempt(self, call, dict(sizes), dict(free))
        return attempt.outcome()


class _Attempt:
    def __init__(self, cases: Cases, call: Call, sizes: dict[str, int], free: dict[str, int]) -> None:
        self._target = cases._target
        self._groups = cases._groups
        self._program = cases._program
        self._harmless = cases._harmless
        self._held = cases._held
        self._copies = cases._copies
        self._call = call
        self._sizes = sizes
        self._free = free
        self._symbols: Symbols | None = None
        self._numbers: Numbers | None = None
        self._of_eager = 0  # how many numbers eager's run needed

    def outcome(self) -> Outcome:
        try:
            path = path_of(self._copies.take(), self._call, self._target.seed)
        except Exception as error:  # noqa: BLE001 - submitted code: it refuses these sizes
            return self._refused(error)
        if self._carries():
            why = "what a call leaves in the model changes what a later one of other sizes answers"
            return replace(self._ended("unproven", why), carries=True)
        try:
            return self._twins(path)
        except Unprovable as stopped:
            return self._ended("unproven", stopped.why, stopped.line)
        except _Stop as stopped:
            return self._differs(stopped)

    def _twins(self, path: Path) -> Outcome:
        eager = self._eager(path)
        while settled := {name: size for name, size in self._open().settled().items() if name in self._free}:
            # Met as one size: from the start, so that both runs see it so.
            for name in settled:
                del self._free[name]
            eager = self._eager(path)
        artifact = self._artifact(eager)
        self._compare(eager, artifact)
        if eager.recorder.writes_what_is_held():
            raise Unprovable("the model writes what it keeps for the next call")
        if not self._agree():
            raise _Stop("on tensors without values both compute the same, and on real ones they differ", None)
        otherwise = _otherwise(path, eager.operators)
        if otherwise is not None:
            return self._ended("alike", otherwise)
        return self._ended("proven")

    def _carries(self) -> bool:
        """Whether the example is answered otherwise after the call that was just made."""
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
        self._numbers = Numbers(self._held, self._symbols, samples)

    def _sample(self, name: str, place: int) -> int:
        """Some size, another for each symbol and each place."""
        highest = self._free[name]
        spread = (7919 * (place + 1) + 104729 * (1 + list(self._free).index(name))) % 10007
        return LEAST + spread % max(1, highest - LEAST + 1)

    def _open(self) -> Symbols:
        assert self._symbols is not None
        return self._symbols

    def _inputs(self, recorder: Recorder) -> dict[str, torch.Tensor]:
        made = {
            path: self._open().empty(self._groups.shapes[path], tensor) for path, tensor in self._call.tensors.items()
        }
        return _named(made, recorder)

    def _eager(self, path: Path) -> _Run:
        self._begin()
        symbols = self._open()
        assert self._numbers is not None
        recorder = Recorder(self._numbers, symbols, line=of_frame, replayed=Replay(path, self._harmless))
        inputs = self._inputs(recorder)
        symbols.told_by(of_frame)
        module = self._copies.take()
        seed_all(self._target.seed)
        try:
            with symbols.entered(), recorder:
                outputs = self._call.with_tensors(inputs).run(module)
                operators = [*recorder.operators]
                if not self._copies.is_unchanged():
                    self._call_again(module, outputs, inputs, recorder)
        except Exception as error:
            if recorder.stopped is not None:
                raise recorder.stopped from error
            raise Unprovable(f"on symbols the model raises {_said(error)}", user_lines.of_error(error)) from error
        if recorder.stopped is not None:
            raise recorder.stopped
        recorder.end()
        return _Run(outputs, recorder, inputs, operators)

    def _call_again(
        self, module: torch.nn.Module, outputs: Any, inputs: dict[str, torch.Tensor], recorder: Recorder
    ) -> None:
        """A call that left something behind must answer the same again."""
        first = _numbers(outputs, recorder)
        again = _numbers(self._call.with_tensors(inputs).run(module), recorder)
        if first != again:
            raise Unprovable("what a call leaves in the model changes what the next one computes")

    def _artifact(self, eager: _Run) -> _Run:
        symbols = self._open()
        recorder: Recorder

        def here() -> user_lines.Line | None:
            return None if recorder.at is None else line_of(recorder.at)

        # What eager made serves again, as long as it is what it was made as.
        shared = None if eager.recorder.reshapes else eager.recorder
        assert self._numbers is not None
        recorder = Recorder(self._numbers, symbols, line=here, replayed=_known_alone, after=shared)
        of_eager = self._numbers.count()
        inputs = self._inputs(recorder) if shared is None else _named(eager.inputs, recorder)
        symbols.told_by(here)
        try:
            with symbols.entered(), views_shared(), recorder:
                outputs = self._program.run(self._call.with_tensors(inputs).handed_over_by_name(), recorder)
        except Unsupported as error:
            raise Unprovable(f"the artifact has what is not run on symbols: {error}", here()) from error
        except Exception as error:
            node = recorder.first_since(of_eager) or recorder.at
            kind = "" if node is None else node.kind()
            raise _Stop(
                f"the artifact raises {_said(error)}", here() if node is None else line_of(node), kind
            ) from error
        recorder.end()
        self._of_eager = of_eager
        return _Run(outputs, recorder, inputs, recorder.operators)

    # What came of them.

    def _compare(self, eager: _Run, artifact: _Run) -> None:
        wrong = find_nesting_difference(
            structure.describe(eager.outputs, "output"),
            structure.describe(artifact.outputs, "output"),
            "output",
            ANSWER_NAMES,
        )
        if wrong is not None:
            raise _Stop(f"{wrong.leaf}: {wrong.what}", None)
        pairs = [
            *_pairs(structure.tensors(eager.outputs, "output"), structure.tensors(artifact.outputs, "output")),
            *_pairs(eager.inputs, artifact.inputs),
        ]
        for path, first, second in pairs:
            one, other = eager.recorder.number(first), artifact.recorder.number(second)
            if one != other:
                self._tell_first(path, one, other, artifact.recorder)
        if _aliases([pair[1] for pair in pairs], eager.recorder) != _aliases(
            [pair[2] for pair in pairs], artifact.recorder
        ):
            raise _Stop("outputs and inputs share memory otherwise", None)

    def _tell_first(self, path: str, eager: int, artifact: int, recorder: Recorder) -> None:
        """Go back from what differs to what made it differ."""
        numbers = self._numbers
        assert numbers is not None
        node = None
        operator = ""
        seen: set[tuple[int, int]] = set()
        while (eager, artifact) not in seen:
            seen.add((eager, artifact))
            other = _operator(numbers, eager) != _operator(numbers, artifact)
            if artifact < self._of_eager and other and node is not None:
                break  # eager has it as well: it is used in another place
            node = recorder.places.get(artifact) or node
            first, second = numbers.key(eager), numbers.key(artifact)
            operator = str(second[0]) if second[0] not in ("result", "written", "write", "held") else operator
            deeper = _first_difference(first, second)
            if deeper is None:
                break
            eager, artifact = deeper
        one, other_one = _shown(numbers.key(eager)), _shown(numbers.key(artifact))
        what = f"{path}: eager computes it with {one}, and the artifact with {other_one}"
        what = self._open().told(what) if one != other_one else f"{path}: it is made of other tensors than eager's"
        raise _Stop(what, line_of(node) if node is not None else None, operator)

    def _differs(self, stopped: _Stop) -> Outcome:
        """They are not the same computation: whether they answer the same is tried where the case began."""
        if self._agree():
            return self._ended("unproven", stopped.why, stopped.line, stopped.operator)
        return self._ended("refuted", stopped.why, stopped.line, stopped.operator)

    def _agree(self) -> bool:
        answer = self._target.eager.answer(self._call)
        try:
            artifact = call_artifact(self._target.artifact, self._call, self._target.seed)
        except Exception:  # noqa: BLE001 - whatever the artifact raises where eager does not
            return False
        tolerance = self._target.tolerance
        outputs = compare(answer.outputs, artifact.outputs, tolerance)
        return outputs.agrees and compare(answer.inputs, artifact.inputs, tolerance, "input").agrees

    def _refused(self, error: Exception) -> Outcome:
        """Where it raises on symbols too, the conditions up to there tell where else."""
        try:
            self._eager(Path([], []))
        except Unprovable as stopped:
            if stopped.why.startswith("on symbols the model raises"):
                return self._ended("refused", _said(error), user_lines.of_error(error))
        self._free = {}
        self._symbols = None
        return self._ended("refused", _said(error), user_lines.of_error(error))

    def _ended(self, ends: Ends, why: str = "", line: user_lines.Line | None = None, operator: str = "") -> Outcome:
        return Outcome(
            ends,
            self._sizes,
            self._free,
            self._symbols,
            self._symbols.conditions() if self._symbols else [],
            self._numbers.alike if self._numbers else [],
            why,
            line,
            operator,
        )


def _named(inputs: dict[str, torch.Tensor], recorder: Recorder) -> dict[str, torch.Tensor]:
    for path, tensor in inputs.items():
        recorder.name_input(tensor, path)
    return inputs


def _known_alone(line: user_lines.Line | None, known: Any) -> Any:
    if known is None:
        raise Unprovable("the artifact reads a value that depends on its inputs", line)
    return known


def _otherwise(path: Path, operators: list[str]) -> str | None:
    real, symbolic = told(path.operators), told(operators)
    if real == symbolic:
        return None
    place = next((place for place, (one, other) in enumerate(zip(real, symbolic, strict=False)) if one != other),
                 min(len(real), len(symbolic)))  # fmt: skip
    one = real[place] if place < len(real) else "nothing"
    other = symbolic[place] if place < len(symbolic) else "nothing"
    return f"on tensors without values the model takes another path: {other} in the place of {one}"


def _numbers(outputs: Any, recorder: Recorder) -> dict[str, int]:
    return {path: recorder.number(tensor) for path, tensor in structure.tensors(outputs, "output").items()}


def _pairs(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> list[tuple[str, Any, Any]]:
    return [(path, first[path], second[path]) for path in first]


def _aliases(tensors: list[torch.Tensor], recorder: Recorder) -> list[int]:
    storages = [recorder.storage(tensor) for tensor in tensors]
    return [storages.index(storage) for storage in storages]


def _operator(numbers: Numbers, number: int) -> Any:
    key = numbers.key(number)
    return numbers.key(key[1])[0] if key[0] == "result" else key[0]


def _first_difference(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[int, int] | None:
    """Two numbers at the same place, where keys are of one operator."""
    if first[0] != second[0] or len(first) != len(second):
        return None
    for one, other in zip(first[1:], second[1:], strict=True):
        if one == other:
            continue
        if type(one) is int and type(other) is int:
            return one, other
        if isinstance(one, tuple) and isinstance(other, tuple) and one[:1] == other[:1] == ("list",):
            return _first_difference(one, other)
        return None
    return None


def _shown(key: Any) -> str:
    """An operator and the numbers among its operands; tensors are left out."""
    match key:
        case ("number" | "float" | "bool" | "expression" | "other", value):
            return str(value)
        case ("list", *items):
            return f"[{', '.join(map(_shown, items))}]"
        case ("result", *_):
            return "another tensor"
        case ("held", *_):
            return "a constant"
        case (str() as name, *items):
            numbers = ", ".join(_shown(item) for item in items if isinstance(item, tuple))
            return user_lines.shortened(f"{name}({numbers})", 200)
    return "..."


def _said(error: BaseException) -> str:
    return user_lines.shortened(
        f"{type(error).__name__}: {user_lines.shown_text_of(error).strip().partition(chr(10))[0]}", 300
    )
