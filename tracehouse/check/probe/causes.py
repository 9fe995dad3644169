"""Causes: what makes the artifact wrong on a call, and whether another call still shows the same cause and no other.

A read of a value is the only cause on a call if two things hold. The artifact differs from the eager model, and the
eager model's answer stays the same if every other wrong read is given the value that it had on the example. Then a
model in which this read alone is mended has a trace that answers the call rightly.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice

import torch

from tracehouse.check.calls import CallResult
from tracehouse.check.inputs.probes import generate_probes
from tracehouse.check.instrumentation.value_reads import ReadRecorder, ReadSite, Replay, ValueRead
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.dims import solve
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.errors import LimitExceeded
from tracehouse.introspection.user_lines import Line
from tracehouse.torch_values.compare import compare

# The search for a call that shows one cause alone tries at most so many calls of each kind; choices.
_BLENDS_MAX = 120
_PROBES_MAX = 60
_OTHER_SHAPE = frozenset({"another shape"})  # the symbols of a call whose shapes no sizes of the symbols give


@dataclass(frozen=True)
class Cause:
    """What makes the artifact wrong on some calls: reads of other values, other sizes of symbols, or both."""

    sites: frozenset[ReadSite] = frozenset()
    symbols: frozenset[str] = frozenset()

    @property
    def lines(self) -> list[Line]:
        """The lines that read."""
        return [*dict.fromkeys(site.source_line for site in sorted(self.sites, key=lambda one: (one.file, one.line)))]


@dataclass(frozen=True)
class Symptom:
    """How two answers differ: in which leaf, and whether the artifact raises, or gives other values or another form."""

    leaf: str
    kind: str


@dataclass(frozen=True)
class _Run:
    answer: CallResult
    reads: Mapping[ReadSite, ValueRead]


class CauseTester:
    """Tells what makes the artifact of a target wrong on a call.

    `watched` are the sites of the reads that may make it wrong, and `baked` the symbols whose sizes do. Without
    `groups`, any other shape is another size.
    Nothing that the model or the artifact raises comes out.
    """

    def __init__(
        self,
        target: Target,
        watched: Collection[ReadSite],
        groups: Groups | None,
        *,
        baked: Collection[str] = (),
        in_torch: bool = True,
    ) -> None:
        self._target = target
        self._watched = frozenset(watched)
        self.groups = groups
        self._baked = frozenset(baked)
        self._in_torch = in_torch

    @cached_property
    def _example(self) -> Mapping[ReadSite, ValueRead]:
        """The reads on the example, which few calls are compared with."""
        example = self._run(self._target.call) if self._watched else None
        return example.reads if example is not None else {}

    def at_line(self, line: Line | None) -> Cause | None:
        """Return the reads of a line as a cause; None if no watched read is on it."""
        sites = frozenset(site for site in self._watched if site.source_line == line)
        return Cause(sites) if sites else None

    def cause_of(self, call: Call) -> Cause:
        """Return all that is otherwise on this call than on the example."""
        run = self._run(call)
        return Cause(self._changed_reads(run) if run is not None else frozenset(), self._changed_symbols(call))

    def symptom_of(self, call: Call) -> Symptom | None:
        """Return how the answers differ; None if they agree, or the eager model gives none."""
        run = self._run(call)
        return None if run is None else self._symptom(call, run.answer)

    def shows(self, call: Call, cause: Cause, symptom: Symptom | None = None) -> bool:
        """Whether the artifact is wrong on this call because of the cause, and of nothing else.

        With a symptom, the answers must also differ in that way.
        """
        run = self._run(call)
        found = None if run is None else self._symptom(call, run.answer)
        if run is None or found is None or symptom not in (None, found):
            return False
        changed, symbols = self._changed_reads(run), self._changed_symbols(call)
        blamed = changed & cause.sites
        if cause.sites and not blamed:
            return False
        if cause.sites and not cause.symbols:
            if symbols & self._baked or (symbols and not self._agrees_without(call, blamed)):
                return False
        elif not symbols <= cause.symbols or (cause.symbols and not symbols):
            return False
        return self._stays_without(call, changed - cause.sites, run.answer)

    def find_call(self, call: Call, cause: Cause, budget: Budget) -> Call | None:
        """Return a call that shows the cause alone; None if none is found.

        It is `call` itself, or one that has a part of its values and the example's elsewhere, or a probe.
        """
        probes = (probe for _, probe in generate_probes(self._target.call, searching=True, deep=True))
        blends = _blend(self._target.call, call)
        for one in chain([call], islice(blends, _BLENDS_MAX), islice(probes, _PROBES_MAX)):
            if self.shows(one, cause):
                return one
            if budget.is_spent:
                break
        return None

    def _run(self, call: Call, *replays: Replay) -> _Run | None:
        recorder = ReadRecorder(call, *replays, in_torch=self._in_torch)
        try:
            within_s = self._target.single_s  # which may call the model
            with recorder if self._watched else nullcontext():
                return _Run(self._target.eager.answer(call, within_s=within_s), recorder.reads)
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code: anything may come out of it
            return None

    def _symptom(self, call: Call, eager: CallResult) -> Symptom | None:
        try:
            asked = self._target.ask_artifact(call, eager)
        except LimitExceeded:
            return None  # who has no memory left shows nothing
        difference = asked.compared.difference
        if difference is None:
            return None
        kind = "raises" if asked.answer is None else "form" if difference.index is None else "values"
        return Symptom(difference.leaf, kind)

    def _changed_reads(self, run: _Run) -> frozenset[ReadSite]:
        return frozenset(site for site in self._watched if _values(run.reads, site) != _values(self._example, site))

    def _changed_symbols(self, call: Call) -> frozenset[str]:
        tensors, example = call.tensors, self._target.call.tensors
        if tensors.keys() != example.keys():
            return _OTHER_SHAPE
        if any(tensor.dim() != example[path].dim() for path, tensor in tensors.items()):
            return _OTHER_SHAPE
        if all(tensor.shape == example[path].shape for path, tensor in tensors.items()):
            return frozenset()
        sizes = self.groups and solve([(shape, tensors[path].shape) for path, shape in self.groups.shapes.items()])
        if not self.groups or not sizes:
            return _OTHER_SHAPE
        changed = {symbol for symbol, size in sizes.items() if size != self.groups.example[symbol]}
        return frozenset(changed) or _OTHER_SHAPE

    def _agrees_without(self, call: Call, blamed: Collection[ReadSite]) -> bool:
        """Whether the models agree if these reads give what they gave on the example."""
        run = self._run_without(call, blamed)
        return run is not None and self._symptom(call, run.answer) is None

    def _stays_without(self, call: Call, others: Collection[ReadSite], answer: CallResult) -> bool:
        """Whether the eager model's answer stays the same if these reads give what they gave on the example."""
        if not others:
            return True
        run = self._run_without(call, others)
        if run is None:
            return False
        pairs = ((answer.outputs, run.answer.outputs), (answer.inputs, run.answer.inputs))
        return all(compare(one, other, self._target.tolerance).agrees for one, other in pairs)

    def _run_without(self, call: Call, sites: Collection[ReadSite]) -> _Run | None:
        """Return the eager run in which these reads give what they gave on the example; None if that is not known."""
        known = [self._example[site] for site in sites if site in self._example]
        replays = [replay for read in known if (replay := read.replay) is not None]
        return self._run(call, *replays) if len(replays) == len(known) else None


def _values(reads: Mapping[ReadSite, ValueRead], site: ReadSite) -> str:
    return repr(reads[site].values) if site in reads else ""


def _blend(example: Call, call: Call) -> Iterator[Call]:
    """Yield calls with a part of this call's values, and the example's elsewhere; or the other way around."""
    ours, others = example.tensors, call.tensors
    if any(tensor.shape != ours[path].shape for path, tensor in others.items()):
        return
    differing = [path for path, tensor in others.items() if not torch.equal(tensor, ours[path])]
    if len(differing) > 1:
        for path in differing:
            yield call.with_tensors({**ours, path: others[path]})
            yield call.with_tensors({**others, path: ours[path]})
    for path in differing:
        for mask in _masks(ours[path] != others[path]):
            yield call.with_tensors({**ours, path: torch.where(mask, others[path], ours[path])})
            yield call.with_tensors({**others, path: torch.where(mask, ours[path], others[path])})


def _masks(differs: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield masks of halves of the elements that differ, then of quarters, and so on down to single elements."""
    places = differs.flatten().nonzero().flatten()
    size = len(places) // 2
    while size:
        for start in range(0, len(places), size):
            mask = torch.zeros(differs.numel(), dtype=torch.bool, device=differs.device)
            mask[places[start : start + size]] = True
            yield mask.reshape(differs.shape)
        size //= 2
