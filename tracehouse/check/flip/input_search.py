"""Searching for inputs on which other values are read than on the example, and comparing the answers there."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch

from tracehouse.check.calls import Answer, call_artifact
from tracehouse.check.inputs.probes import generate_probes
from tracehouse.check.inputs.thresholds import aim_probes
from tracehouse.check.instrumentation.value_reads import IN_TORCH, ReadRecorder, ReadSite, Replay, ValueRead
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory
from tracehouse.errors import ModelRaised
from tracehouse.torch_values import structure
from tracehouse.torch_values.compare import compare

_AGREED_ENOUGH = 10  # of inputs that read another value; no more are tried then
_NUMBERS_ENOUGH = 60  # another number may be one that leads to the same
_EXAMPLES_MAX = 6
_NUMBERS_MAX = 16


@dataclass(frozen=True)
class _Threshold:
    number: float


@dataclass
class SearchResult:
    """Of one read: on how many inputs that read another value the two agreed, and one on which they did not."""

    numeric: bool = False
    agreed: int = 0
    values: set[str] = field(default_factory=set)
    examples: list[Call] = field(default_factory=list)  # on which they agreed, each reading another value
    counterexample: Call | None = None
    difference: str | None = None

    def note(self, call: Call, values: str, differs: str | None, *, tells: bool) -> None:
        if self.is_enough:
            return
        if differs is not None:
            self.counterexample, self.difference = call, differs
            return
        if not self.examples or (values not in self.values and len(self.examples) < _EXAMPLES_MAX):
            self.examples.append(call)
        if tells:
            self.agreed += 1
            self.values.add(values)

    @property
    def agreed_values(self) -> int:
        return len(self.values)

    @property
    def is_enough(self) -> bool:
        enough = _NUMBERS_ENOUGH if self.numeric else _AGREED_ENOUGH
        return self.counterexample is not None or self.agreed >= enough


def search_inputs(
    target: Target, reads: Sequence[ValueRead], numbers: Iterable[float], budget: Budget
) -> dict[ReadSite, SearchResult]:
    """One run of eager tells what all of them read."""
    found = {read.site: SearchResult(numeric=not isinstance(next(iter(read.values), True), bool)) for read in reads}
    example = {read.site: read.values for read in reads}
    named = sorted(number for read in reads for number in read.numbers)
    at_hand = (number for read in reads for number in read.comparands.numbers)
    aims = [*dict.fromkeys([*sorted(numbers), *named, *at_hand])]
    for name, call in generate_candidates(target.call, aims[:_NUMBERS_MAX]):
        if all(one.is_enough for one in found.values()):
            break
        if budget.is_spent:
            budget.leave_out(f"looking for inputs that read other values, from {name!r} on")
            break
        _try(target, call, example, found)
    return found


def generate_candidates(example: Call, numbers: Iterable[float]) -> Iterator[tuple[str, Call]]:
    """Other values of all kinds, and values on both sides of the numbers that something is compared with."""
    thresholds = [_Threshold(number) for number in numbers]
    for pair in zip_longest(generate_probes(example, searching=True, deep=True), aim_probes(example, thresholds)):
        yield from (one for one in pair if one is not None)


def _try(target: Target, call: Call, example: dict[ReadSite, list[Any]], found: dict[ReadSite, SearchResult]) -> None:
    reading = ReadRecorder(call, in_torch=any(site.kind == IN_TORCH for site in found))
    try:
        with reading:
            answer = target.eager.answer(call, within_s=CALL_LIMITS.read_search_s)
    except (ModelRaised, TooSlow):  # such values are none for this model
        return
    reached = [site for site, values in example.items() if repr(_values(reading, site)) != repr(values)]
    if all(found[site].is_enough for site in reached):
        return
    difference = _difference(target, call, answer)
    tells = any(map(_tells, structure.tensors(answer.outputs, "output").values()))
    for site in reached:
        others = {other: example[other] for other in reached if other != site}
        differs = difference if difference is None or not others else _alone(target, call, others, difference)
        found[site].note(call, repr(_values(reading, site)), differs, tells=tells)


def _alone(target: Target, call: Call, others: dict[ReadSite, list[Any]], difference: str) -> str | None:
    """How the two differ by one site alone, where the others read what they did on the example, as the trace has it."""
    if not all(isinstance(value, int | float) for values in others.values() for value in values):
        return difference
    replays = [Replay(site, values) for site, values in others.items()]
    try:
        with ReadRecorder(call, *replays, in_torch=any(site.kind == IN_TORCH for site in others)):
            answer = target.eager.answer(call, within_s=CALL_LIMITS.read_search_s)
    except (ModelRaised, TooSlow):  # it cannot be told which of them it is
        return difference
    return _difference(target, call, answer)


def _tells(tensor: torch.Tensor) -> bool:
    """Whether that two agree on it says anything: not where all is zero, or no number."""
    finite = torch.isfinite(tensor) if tensor.is_floating_point() else torch.ones_like(tensor, dtype=torch.bool)
    return bool((finite & (tensor != 0)).any())


def _values(reading: ReadRecorder, site: ReadSite) -> list[Any]:
    read = reading.reads.get(site)
    return read.values if read else []


def _difference(target: Target, call: Call, eager: Answer) -> str | None:
    try:
        answer = call_artifact(target.artifact, call, target.seed)
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory(error) from error
        return f"the artifact raised {type(error).__name__}"
    if eager.drew or answer.drew:
        return None
    for given, other, name in ((eager.outputs, answer.outputs, "output"), (eager.inputs, answer.inputs, "input")):
        difference = compare(given, other, target.tolerance, name).difference
        if difference is not None:
            return f"{difference.leaf}: {difference.what}"
    return None
