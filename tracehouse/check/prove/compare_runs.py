"""Compare runs: whether the model and its artifact, run on the same symbols, return the same value numbers.

If two numbers differ, their keys are followed back to the operator that made them differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from tracehouse.check.prove.interpreter import line_of
from tracehouse.check.prove.recorder import Recorder
from tracehouse.check.prove.size_follower import SizeText, fix_symbols
from tracehouse.check.prove.symbols import Symbols
from tracehouse.check.prove.value_numbers import Key, ValueNumbers
from tracehouse.differential.comparison import ANSWER_NAMES, find_nesting_difference
from tracehouse.introspection import user_lines
from tracehouse.torch_values import structure

# Kinds of keys that are no operator.
_NO_OPERATORS = ("result", "written", "write", "held")


@dataclass(frozen=True)
class Run:
    """A run of the model, or of its artifact, on symbols: what came out, and the recorder that numbered it."""

    outputs: Any
    recorder: Recorder
    inputs: dict[str, torch.Tensor]
    operators: list[str]


class RunsDiffer(Exception):
    """The model and its artifact compute differently; `line` and `operator` are where the artifact does."""

    def __init__(self, reason: str, line: user_lines.Line | None, operator: str = "") -> None:
        super().__init__(reason)
        self.reason, self.line, self.operator = reason, line, operator


def compare_runs(eager: Run, artifact: Run, numbers: ValueNumbers, symbols: Symbols, *, eager_count: int) -> None:
    """Raise RunsDiffer unless both runs return the same numbers and leave the same numbers in their inputs.

    `eager_count` is how many numbers there were when eager's run had ended.
    """
    misfit = find_nesting_difference(
        structure.describe(eager.outputs, "output"),
        structure.describe(artifact.outputs, "output"),
        "output",
        ANSWER_NAMES,
    )
    if misfit is not None:
        raise RunsDiffer(f"{misfit.leaf}: {misfit.what}", None)
    pairs = [
        *_pairs(structure.tensors(eager.outputs, "output"), structure.tensors(artifact.outputs, "output")),
        *_pairs(eager.inputs, artifact.inputs),
    ]
    for path, first, second in pairs:
        eager_number, artifact_number = eager.recorder.number(first), artifact.recorder.number(second)
        if eager_number != artifact_number:
            explanation = _Explanation(numbers, symbols, artifact.recorder, eager_count)
            explanation.raise_first_difference(path, eager_number, artifact_number)
    eager_memory = _memory_groups([pair[1] for pair in pairs], eager.recorder)
    if eager_memory != _memory_groups([pair[2] for pair in pairs], artifact.recorder):
        raise RunsDiffer("outputs and inputs share memory otherwise", None)


def fix_numbers(outputs: Any) -> Any:
    """Return the outputs with each symbolic number, and text of such, as what it is, which bounds the sizes.

    The artifact has a constant there. So the case is about the sizes alone at which the number is the same.
    """
    match outputs:
        case structure.DataclassFields():
            return structure.DataclassFields({key: fix_numbers(item) for key, item in outputs.items()})
        case dict():
            return {fix_numbers(key): fix_numbers(item) for key, item in outputs.items()}
        case structure.NamedTupleFields():
            return outputs.with_items(map(fix_numbers, outputs))
        case tuple():
            return tuple(map(fix_numbers, outputs))
        case list():
            return [*map(fix_numbers, outputs)]
        case torch.SymInt() | torch.SymFloat() | torch.SymBool() | SizeText():
            return fix_symbols(outputs)
    return outputs


@dataclass(frozen=True)
class _Explanation:
    """The records that explain why two value numbers differ."""

    numbers: ValueNumbers
    symbols: Symbols
    artifact: Recorder
    eager_count: int

    def raise_first_difference(self, path: str, eager: int, artifact: int) -> NoReturn:
        """Go back from two numbers that differ to the operands that made them differ, and raise RunsDiffer."""
        node = None
        operator = ""
        seen: set[tuple[int, int]] = set()
        while (eager, artifact) not in seen:
            seen.add((eager, artifact))
            is_other_operator = self._operator(eager) != self._operator(artifact)
            if artifact < self.eager_count and is_other_operator and node is not None:
                break  # eager computes this value as well, and the artifact uses it in another place
            node = self.artifact.first_positions.get(artifact) or node
            eager_key, artifact_key = self.numbers.key(eager), self.numbers.key(artifact)
            operator = str(artifact_key[0]) if artifact_key[0] not in _NO_OPERATORS else operator
            operands = _first_difference(eager_key, artifact_key)
            if operands is None:
                break
            eager, artifact = operands
        eager_text = _describe(self.numbers.key(eager))
        artifact_text = _describe(self.numbers.key(artifact))
        reason = f"{path}: it is made of other tensors than eager's"
        if eager_text != artifact_text:
            reason = f"{path}: eager computes it with {eager_text}, and the artifact with {artifact_text}"
            reason = self.symbols.write_names(reason)
        raise RunsDiffer(reason, line_of(node) if node is not None else None, operator)

    def _operator(self, number: int) -> Any:
        key = self.numbers.key(number)
        return self.numbers.key(key[1])[0] if key[0] == "result" else key[0]


def _pairs(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> list[tuple[str, Any, Any]]:
    return [(path, first[path], second[path]) for path in first]


def _memory_groups(tensors: list[torch.Tensor], recorder: Recorder) -> list[int]:
    """Return for each tensor the place of the first one that shares its storage."""
    storages = [recorder.storage(tensor) for tensor in tensors]
    return [storages.index(storage) for storage in storages]


def _first_difference(first: Key, second: Key) -> tuple[int, int] | None:
    """Return the first two value numbers that differ in the same place; None if the keys differ in another way."""
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


def _describe(key: Any) -> str:
    """Return an operator's name and the numbers among its operands, without its tensors."""
    match key:
        case ("number" | "float" | "bool" | "expression" | "other", value):
            return str(value)
        case ("list", *items):
            return f"[{', '.join(map(_describe, items))}]"
        case ("result", *_):
            return "another tensor"
        case ("held", *_):
            return "a constant"
        case (str() as name, *items):
            numbers = ", ".join(_describe(item) for item in items if isinstance(item, tuple))
            return user_lines.shorten(f"{name}({numbers})", 200)
    return "..."
