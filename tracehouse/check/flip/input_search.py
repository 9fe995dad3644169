"""Input search: it finds inputs on which Python reads other values than on the example, and compares answers there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from tracehouse.check.calls import CallEnded, CallResult
from tracehouse.check.inputs.candidates import generate_candidates
from tracehouse.check.inputs.patterned_calls import keep_patterns
from tracehouse.check.instrumentation.value_reads import IN_TORCH, ReadRecorder, ReadSite, ValueRead
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.torch_values import returned

# The bounds of the search are choices.
_AGREED_ENOUGH = 10  # the search for a read ends after so many agreeing inputs that read another value
_NUMBERS_ENOUGH = 60  # the same for a read of numbers, because another number may lead to the same branch
_EXAMPLES_MAX = 6  # so many inputs that read another value are kept, to trace the model on them
_NUMBERS_MAX = 16  # so many numbers are aimed at


@dataclass
class SearchResult:
    """What the search found for one read: inputs that read another value, and whether the answers agree there."""

    numeric: bool = False  # whether numbers are read, and not booleans
    agreed: int = 0  # on how many inputs the answers agree, not counting answers that show nothing
    values: set[str] = field(default_factory=set)  # what was read on these inputs
    examples: list[Call] = field(default_factory=list)  # a few inputs on which the answers agree
    counterexample: Call | None = None  # an input on which they differ
    difference: str | None = None  # how they differ there

    def note(self, call: Call, values: str, difference: str | None, *, is_telling: bool) -> None:
        """Count an input that reads other values; `is_telling` says whether agreement on it shows anything."""
        if self.is_enough:
            return
        if difference is not None:
            self.counterexample, self.difference = call, difference
            return
        if not self.examples or (values not in self.values and len(self.examples) < _EXAMPLES_MAX):
            self.examples.append(call)
        if is_telling:
            self.agreed += 1
            self.values.add(values)

    @property
    def agreed_values(self) -> int:
        """How many different values were read where the answers agree."""
        return len(self.values)

    @property
    def is_enough(self) -> bool:
        """Whether the read needs no further inputs."""
        enough = _NUMBERS_ENOUGH if self.numeric else _AGREED_ENOUGH
        return self.counterexample is not None or self.agreed >= enough


def search_inputs(
    target: Target, reads: Sequence[ValueRead], numbers: Iterable[float], budget: Budget
) -> dict[ReadSite, SearchResult]:
    """Return what was found for each read, by its site.

    The eager model runs once on each input, which shows the values of all reads there. `numbers` are those that tensors
    were compared with. Inputs are aimed at them and at the numbers that each read may be compared with. Inputs for
    which the budget leaves no time are left out. Raises LimitExceeded if the artifact runs out of memory.
    """
    results = {read.site: SearchResult(numeric=not isinstance(next(iter(read.values), True), bool)) for read in reads}
    example = {read.site: read for read in reads}
    named = sorted(number for read in reads for number in read.numbers)
    reachable = (number for read in reads for number in read.comparands.numbers)
    aims = [*dict.fromkeys([*sorted(numbers), *named, *reachable])]
    for name, call in generate_candidates(target.call, aims[:_NUMBERS_MAX]):
        if all(one.is_enough for one in results.values()):
            break
        if budget.is_spent:
            budget.leave_out(f"inputs that read other values were not searched for, from {name!r} on")
            break
        _test_input(target, call, example, results)
    return results


def _test_input(
    target: Target,
    call: Call,
    example: dict[ReadSite, ValueRead],
    results: dict[ReadSite, SearchResult],
    *,
    refused: bool = False,
) -> None:
    """Compare both models on one input, and note the result for each read that gave other values than before.

    If the eager model refuses it, it is tried once more with the patterns of the example's values, `refused` then.
    """
    watch = _SameReads(example)
    recorder = ReadRecorder(call, in_torch=any(site.kind == IN_TORCH for site in results), track=watch.note)
    watch.reads = recorder.reads
    within_s = target.single_s  # which may call the model
    try:
        with recorder:
            answer = target.eager.answer(call, within_s=within_s)
    except ModelRaised:  # the model does not accept such values
        kept = None if refused else keep_patterns(target.call, call)
        if kept is not None:
            _test_input(target, kept, example, results, refused=True)
        return
    except (TooSlow, CallEnded):
        return
    changed = [site for site, read in example.items() if repr(_find_values(recorder, site)) != repr(read.values)]
    if all(results[site].is_enough for site in changed):
        return
    difference = _find_difference(target, call, answer)
    is_telling = any(map(_is_telling, returned.tensors(answer.outputs).values()))
    for site in changed:
        others = [example[other] for other in changed if other != site]
        alone = difference if difference is None or not others else _isolate(target, call, others, difference)
        if alone is None and not example[site].in_eager:
            continue  # no call shows whether it has another value there
        results[site].note(call, repr(_find_values(recorder, site)), alone, is_telling=is_telling)


class _SameReads:
    """Ends a call as soon as it has read all that it reads on the example, and the same values: it shows nothing."""

    def __init__(self, example: Mapping[ReadSite, ValueRead]) -> None:
        self.reads: Mapping[ReadSite, ValueRead] = {}  # those of the call
        self._example = example
        self._left = sum(read.times for read in example.values())
        self._can_end = all(len(read.values) == read.times for read in example.values())

    def note(self, site: ReadSite, value: Any) -> Any:
        """Return the value. Raises CallEnded where the rest of the call shows nothing."""
        if self._can_end and site in self._example:
            self._left -= 1
            if self._left == 0 and all(
                site in self.reads and repr(self.reads[site].values) == repr(read.values)
                for site, read in self._example.items()
            ):
                raise CallEnded
        return value


def _isolate(target: Target, call: Call, others: Sequence[ValueRead], difference: str) -> str | None:
    """Return how the models differ because of one read alone; `difference` if that stays unknown.

    The eager model is called again, and the other reads are given the values that they had on the example.
    """
    replays = [replay for read in others if (replay := read.replay) is not None]
    if len(replays) < len(others):
        return difference
    within_s = target.single_s
    try:
        with ReadRecorder(call, *replays, in_torch=any(read.site.kind == IN_TORCH for read in others)):
            answer = target.eager.answer(call, within_s=within_s)
    except (ModelRaised, TooSlow):  # which of the reads it is stays unknown
        return difference
    return _find_difference(target, call, answer)


def _is_telling(tensor: torch.Tensor) -> bool:
    """Whether agreement on this tensor means something: it does not if every element is zero, infinite or NaN."""
    finite = torch.isfinite(tensor) if tensor.is_floating_point() else torch.ones_like(tensor, dtype=torch.bool)
    return bool((finite & (tensor != 0)).any())


def _find_values(recorder: ReadRecorder, site: ReadSite) -> list[Any]:
    read = recorder.reads.get(site)
    return read.values if read else []


def _find_difference(target: Target, call: Call, eager: CallResult) -> str | None:
    asked = target.ask_artifact(call, eager)
    if eager.drew_in_python:  # the artifact keeps what Python drew
        return None
    difference = asked.compared.difference
    return None if difference is None else f"{difference.leaf}: {difference.what}"
