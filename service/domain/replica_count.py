"""The replica count: how many runners answer a model for which nobody has set a number, as its load shows.

Each look says what was seen since the one before, so nothing here asks a clock.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from service.domain.thread_count import SPEEDUP_MIN

# More runners are tried after so many looks in a row at which the present ones could not keep up, and are judged by as
# many. Over fewer answers, a rate says little. Chosen.
_LOOKS, _ANSWERS = 3, 10
# So many looks are remembered: ten answers of a slow model take a while. Chosen.
_LOOKS_MAX = 60
# Runners cannot keep up that compute for so much of the time while requests wait.
_BUSY = 0.9
# Runners that computed for less than this of the time, even in the busiest second of so many, are too many. Chosen:
# well below `_BUSY`, so that fewer of them are not at once too few.
_ENOUGH, _QUIET_S = 0.7, 60.0
# After a trial that showed no gain, or runners that stood in others' way, the next one is so much later. Chosen.
_AGAIN_S = 600.0
# After a trial that showed nothing, because too few requests came. Chosen.
_AGAIN_SOON_S = 60.0
# Runners end that stand in others' way at so many looks in a row, and a trial after so many at which one is missing and
# does not load. Chosen.
_CROWDED_LOOKS = _MISSING_LOOKS = 10


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a model's runners since the look before, `elapsed_s` ago.

    They gave so many `answers`, and computed for `busy_s` seconds in all. Now so many are `ready`, another one may be
    loading, and requests may wait. `idle` is how many processors had nothing to do. The runners are `in_the_way` if
    none had, and requests wait of a tenant who has less.
    """

    elapsed_s: float
    answers: int = 0
    busy_s: float = 0.0
    waits: bool = False
    ready: int = 1
    is_loading: bool = False
    idle: float = 0.0
    in_the_way: bool = False

    @property
    def busy(self) -> float:
        """How many runners computed, on average."""
        return self.busy_s / self.elapsed_s


@dataclass(slots=True)
class _Trial:
    """A trial of more runners than the `fewer` that gave `fewer_rate` answers a second. `looks` are those that count.

    Once all runners were there, it ends without a result `left_s` seconds later; and before, if one is missing at some
    looks.
    """

    fewer: int
    fewer_rate: float
    looks: list[Look] = field(default_factory=list)
    left_s: float = _QUIET_S
    missing: int = 0
    has_begun: bool = False
    was_whole: bool = False


class Decision(NamedTuple):
    """How many runners are to answer, and why."""

    replicas: int
    why: str


class ReplicaCount:
    """How many runners are to answer, and why. `look` never makes them more, and `begin` tries more."""

    def __init__(self) -> None:
        why = "more are tried once requests wait for it while processors are idle, if there is memory"
        self.decision = Decision(1, why)  # another thread may read it
        self._trial: _Trial | None = None
        # The last looks in a row at which they could not keep up.
        self._overloaded: deque[Look] = deque(maxlen=_LOOKS_MAX)
        self._waited = False
        self._pause_s = 0.0
        self._quiet_s = self._most_busy = 0.0
        self._crowded = 0

    @property
    def count(self) -> int:
        return self.decision.replicas

    @property
    def why(self) -> str:
        return self.decision.why

    @property
    def is_trying(self) -> bool:
        """Whether more runners than before answer, or are to, and nobody knows yet what that is worth."""
        return self._trial is not None

    def look(self, look: Look) -> None:
        """Go by what was seen."""
        self._pause_s = max(0.0, self._pause_s - look.elapsed_s)
        self._note_overload(look)
        if self._give_way_if_crowded(look):
            return
        if self._trial is not None:
            self._go_on(self._trial, look)
        else:
            self._end_idle(look)

    def next_count(self, threads: int, most: int) -> int:
        """Return how many runners are worth a trial, `most` at most; as many as there are if no more.

        Each computes with so many threads, and for at least half of these processors must have been idle. At most twice
        as many are tried, and never so few more that even the best gain would be too small.
        """
        if self._trial is not None or self._pause_s > 0 or _rate(self._overloaded) is None:
            return self.count
        idle = min(look.idle for look in [*self._overloaded][-_LOOKS:])
        wanted = min(2 * self.count, self.count + int(idle / threads + 0.5), most)
        return wanted if wanted > SPEEDUP_MIN * self.count else self.count

    def begin(self, count: int) -> None:
        """Try more runners, as `next_count` says."""
        fewer_rate = _rate(self._overloaded)
        assert fewer_rate is not None
        self._trial = _Trial(self.count, fewer_rate)
        why = f"{count} are tried: requests waited while {_processes(self.count)} computed, and processors were idle"
        self.decision = Decision(count, why)
        self._overloaded.clear()

    def _note_overload(self, look: Look) -> None:
        is_overloaded = look.ready == self.count and look.busy >= _BUSY * self.count and look.waits and self._waited
        self._waited = look.waits
        if is_overloaded:
            self._overloaded.append(look)
        else:
            self._overloaded.clear()

    def _give_way_if_crowded(self, look: Look) -> bool:
        self._crowded = self._crowded + 1 if look.in_the_way and self.count > 1 else 0
        if self._crowded < _CROWDED_LOOKS:
            return False
        fewer = self.count - 1 if self._trial is None else self._trial.fewer
        self._change(fewer, "the processors were busy, and requests of another tenant waited", _AGAIN_S)
        return True

    def _go_on(self, trial: _Trial, look: Look) -> None:
        if trial.has_begun:
            trial.left_s -= look.elapsed_s
        is_whole = look.ready >= self.count
        if is_whole and trial.was_whole and look.busy >= _BUSY * trial.fewer:  # all were there since the look before
            trial.looks.append(look)
        trial.was_whole = is_whole
        trial.has_begun = trial.has_begun or is_whole
        trial.missing += not is_whole and not look.is_loading
        rate = _rate(trial.looks)
        if rate is not None:
            self._judge(trial, rate / trial.fewer_rate)
        elif trial.missing >= _MISSING_LOOKS:
            self._settle_for(trial, look.ready)
        elif trial.left_s <= 0:
            why = f"{self.count} processes were tried, and too few requests came meanwhile to compare them"
            self._change(trial.fewer, why, _AGAIN_SOON_S)

    def _settle_for(self, trial: _Trial, ready: int) -> None:
        """Try as many as could be started, if those are more than before."""
        if ready > trial.fewer:
            trial.missing, trial.looks = 0, []
            waited = f"requests waited while {_processes(trial.fewer)} computed"
            self.decision = Decision(ready, f"{ready} are tried: {waited}, and no more could be started")
        else:
            why = f"{self.count} processes were to be tried, and no more could be started"
            self._change(trial.fewer, why, _AGAIN_S)

    def _judge(self, trial: _Trial, gain: float) -> None:
        if gain >= SPEEDUP_MIN:
            why = f"{self.count} processes answered {gain:.2f} times as many requests as {trial.fewer}"
            self._change(self.count, why, 0.0)
        else:
            why = f"{self.count} processes answered only {gain:.2f} times as many requests as {trial.fewer}"
            self._change(trial.fewer, why, _AGAIN_S)

    def _end_idle(self, look: Look) -> None:
        self._quiet_s += look.elapsed_s
        self._most_busy = max(self._most_busy, look.busy)
        if self._quiet_s < _QUIET_S:
            return
        needed = max(1, ceil(self._most_busy / _ENOUGH))
        if needed < self.count:
            self._change(needed, f"for {_QUIET_S:g} s, fewer requests came than {self.count} processes are for", 0.0)
        self._quiet_s = self._most_busy = 0.0

    def _change(self, count: int, why: str, pause_s: float) -> None:
        self.decision, self._pause_s = Decision(count, why), max(self._pause_s, pause_s)
        self._trial = None
        self._overloaded.clear()
        self._quiet_s = self._most_busy = 0.0
        self._crowded = 0


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _rate(looks: Iterable[Look]) -> float | None:
    """Return the answers a second at the last of these looks; None if these are too few to say."""
    answers, elapsed_s = 0, 0.0
    for count, look in enumerate(reversed([*looks]), start=1):
        answers += look.answers
        elapsed_s += look.elapsed_s
        if count >= _LOOKS and answers >= _ANSWERS:
            return answers / elapsed_s
    return None
