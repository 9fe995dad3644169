"""A deployment: one tenant's requests for one artifact with so many threads, and the seats of their runners."""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from service.domain.replica_count import ReplicaCount
from service.domain.serving_options import ModelKey
from service.serving.load_meter import LoadMeter
from service.serving.pending_call import CallLeft, Group, PendingCall
from service.serving.room import Holding
from service.serving.seat import Seat
from service.serving.turn import Turn
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import GoldenCaseFailed, RunnerLost

# One death may be the machine's fault, out of memory for example; two in a row are the artifact's.
_DEATHS_MAX = 2
# A runner that is missing beside others, and did not start, is tried again after 1 s, 2 s, 4 s, and so long at most;
# one for which there was no memory is tried again after the first of these times. Chosen.
_FILL_AGAIN_S, _FILL_AGAIN_MAX_S = 1.0, 60.0

# A tenant, the digest of an artifact, and how many threads compute.
DeploymentKey = tuple[str, str, int]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Hold:
    """The time until which requests are refused, and the error that they get."""

    until: float
    error: RunnerLost


@dataclass(eq=False)
class Deployment:
    """`waiting` are the calls that runners are to be asked, in their order. `on_free` is called when one is free.

    `pending` counts the requests that are being answered, and those that wait for that. `model` is the name by which it
    was asked last, and `wanted` says for each name how many runners are to answer: the most of these do. None: as many
    as `measured` says.
    `is_raced`: it is known which form answers; until then, a race of them may begin at `race_at`. `is_saved`: the form
    as saved answers, for the one that won was taken back, or a model is served bitwise. Until `fill_at`, no runner is
    started beside others. `is_beside`: one with another number of threads answers until a runner of this one is ready.
    """

    tenant: str
    artifact: Artifact
    digest: str
    threads: int
    on_free: Callable[["Deployment"], object] = lambda _: None
    seats: list[Seat] = field(default_factory=list)
    waiting: deque[PendingCall] = field(default_factory=deque)
    pending: int = 0
    model: str = ""
    wanted: dict[str, int | None] = field(default_factory=dict)
    measured: ReplicaCount = field(default_factory=ReplicaCount)
    load: LoadMeter = field(default_factory=LoadMeter)
    used_at: float = 0.0
    is_woken: bool = False  # the waiting calls are looked at once this turn of the event loop has ended
    is_raced: bool = False
    is_saved: bool = False
    race_at: float = -math.inf
    made_at: float = field(default_factory=time.monotonic)
    is_beside: bool = False
    deaths_in_a_row: int = 0
    is_filling: bool = False
    fill_at: float = -math.inf
    _fills_failed: int = 0
    _numbers: Iterator[int] = field(default_factory=count)
    _hold: _Hold | None = None

    def __post_init__(self) -> None:
        self.resize()

    def resize(self) -> list[Seat]:
        """Have as many seats as are wanted; return those that are surplus now. Runners that answer stay first."""
        seats, most = [seat for seat in self.seats if not seat.is_surplus], self.replicas
        for _ in range(most - len(seats)):
            self.seats.append(Seat(next(self._numbers), Turn(partial(self.on_free, self))))
        surplus = sorted(seats, key=lambda seat: (not seat.is_answering, not seat.is_taken))[most:]
        for seat in surplus:
            seat.is_surplus = True
        return surplus

    @property
    def replicas(self) -> int:
        """How many runners are to answer."""
        measured = self.measured.count
        return max((measured if wanted is None else wanted for wanted in [*self.wanted.values()]), default=1)

    @property
    def is_measured(self) -> bool:
        """Whether the load decides how many runners answer: on the CPU, where no model that asks has its own number."""
        return self.artifact.device == "cpu" and {*self.wanted.values()} == {None}

    @property
    def key(self) -> DeploymentKey:
        return self.tenant, self.digest, self.threads

    @property
    def is_forgettable(self) -> bool:
        """Whether it holds nothing that a later request would miss."""
        return self.pending == 0 and not self.is_taken and self._hold is None and not self.is_beside

    @property
    def model_keys(self) -> set[ModelKey]:
        return {ModelKey(self.tenant, name) for name in (self.model, *self.wanted)}

    def is_idle(self, idle_s: float) -> bool:
        """Whether a runner is ready, and nobody has asked for so long."""
        is_ready = any(seat.is_ready for seat in self.seats)
        return is_ready and self.pending == 0 and time.monotonic() - self.used_at >= idle_s

    @property
    def has_runner(self) -> bool:
        """Whether a process of it lives, or is being forked."""
        return any(seat.has_runner for seat in self.seats)

    @property
    def is_taken(self) -> bool:
        """Whether a process of it lives, or is to live soon."""
        for seat in self.seats:  # noqa: SIM110 - the end of each request looks, as for `is_answering`
            if seat.is_taken:
                return True
        return False

    @property
    def is_answering(self) -> bool:
        """Whether a runner of it has loaded, and takes requests now or after those that it computes."""
        for seat in self.seats:  # noqa: SIM110 - each request looks, and a generator takes three times as long
            if seat.is_answering:
                return True
        return False

    @property
    def answering_count(self) -> int:
        """How many runners have loaded, and take requests now or after those that they compute."""
        return sum(seat.is_answering for seat in self.seats)

    @property
    def is_all_saved(self) -> bool:
        """Whether all of it answers as saved, and will."""
        return self.is_saved and all(seat.runner is None or seat.runner.raced_form is None for seat in self.seats)

    def is_first(self, seat: Seat) -> bool:
        """Whether no other seat has a runner that loads or answers. A surplus seat is never first."""
        return not seat.is_surplus and not any(other.goes_on for other in self.seats if other is not seat)

    def free_seats(self) -> list[Seat]:
        """Return the seats whose runners can be asked now."""
        return [seat for seat in self.seats if seat.is_free]

    def seat_to_start(self) -> Seat | None:
        """Return the seat in which a runner is started for a request; None while another seat may answer it."""
        seats = [seat for seat in self.seats if not seat.is_surplus]
        if any(seat.turn.is_taken for seat in seats):  # its end is heard of
            return None
        return next((seat for seat in seats if seat.is_taken), seats[0])

    def seat_to_use(self) -> Seat:
        """Return a seat that has a runner, if one has, and rather one that has loaded."""
        seats = [seat for seat in self.seats if not seat.is_surplus]
        return min(seats, key=lambda seat: (not seat.is_answering, not seat.is_taken, seat.turn.is_taken))

    def seat_to_fill(self) -> Seat | None:
        """Return a seat in which a runner is missing beside others, if one may be started now."""
        if self.is_filling or self.is_held_back or time.monotonic() < self.fill_at:
            return None
        if not self.has_runner and not self.is_beside:
            return None
        return next((seat for seat in self.seats if seat.is_vacant), None)

    def count_fill(self, *, has_failed: bool) -> None:
        """Count a start of a runner beside others: after one that failed, the next is later."""
        self._fills_failed = self._fills_failed + 1 if has_failed else 0
        if has_failed:
            self._put_off_fill(min(_FILL_AGAIN_MAX_S, _FILL_AGAIN_S * 2.0 ** min(self._fills_failed - 1, 10)))

    def find_no_room(self) -> None:
        """Say that there was no memory for a runner beside others."""
        self._put_off_fill(_FILL_AGAIN_S)

    def _put_off_fill(self, pause_s: float) -> None:
        if self.fill_at < math.inf:
            self.fill_at = time.monotonic() + pause_s

    def holdings(self, answer_s: float, *, is_pinned: bool = False) -> Iterator[tuple[Seat, Holding]]:
        """Yield what the seats have of the pool's memory, each that has something.

        One that answers is the first, and rather one that computes: then those that do nothing are the further ones.
        None of these is pinned that nobody has asked for: it keeps no memory away from others.
        """
        has_one = self.is_beside
        for seat in sorted(self.seats, key=lambda seat: (not seat.is_answering, not seat.goes_on, seat.is_free)):
            is_wanted = self.pending > 0 and (seat.turn.is_taken or bool(self.waiting))
            is_further = has_one or seat.is_surplus
            stays = is_pinned and not seat.is_surplus and not (is_further and self.is_measured)
            holding = seat.holding(self.key, answer_s, is_wanted=is_wanted, is_pinned=stays, is_further=is_further)
            if holding is not None:
                has_one = has_one or not seat.is_surplus
                yield seat, holding

    @property
    def is_held_back(self) -> bool:
        return self._hold is not None

    def take_group(self, calls_max: int) -> Group | None:
        """Take the calls that are asked next: those that wait longest, and so many at most. None if nobody waits."""
        if not self.waiting:
            return None
        group = Group(self.waiting.popleft())
        while self.waiting and len(group.calls) < calls_max and group.join(self.waiting[0]):
            self.waiting.popleft()
        return group

    def put_back(self, call: PendingCall) -> None:
        """Let a call that was taken be the next one, if somebody still waits for its answer."""
        if call.is_left:
            call.end(CallLeft())
        else:
            self.waiting.appendleft(call)

    def drop(self, call: PendingCall) -> None:
        """Drop a call, if it waits: nobody waits for its answer."""
        if call in self.waiting:
            self.waiting.remove(call)
            call.end(CallLeft())

    def count_death(self, seat: Seat, error: RunnerLost, hold_s: float) -> None:
        """Hold the artifact back after two deaths in a row, or at once if another runner would fail the same way.

        Of several runners that had loaded, each may die once: what ends them all at once is not the artifact.
        """
        if seat.runner is not None and seat.runner.ended_with_zygote:
            return
        self.deaths_in_a_row += 1
        had_loaded = seat.runner is not None and seat.runner.has_loaded
        deaths_max = len(self.seats) + 1 if had_loaded else _DEATHS_MAX
        if self.deaths_in_a_row >= deaths_max or isinstance(error, GoldenCaseFailed):
            self.deaths_in_a_row = 0
            self._hold = _Hold(time.monotonic() + hold_s, error)
            _log.error("artifact held back", extra={"artifact": self.digest, "reason": error.detail, "seconds": hold_s})

    def refuse_if_held_back(self) -> None:
        """Raises the RunnerLost for which the artifact is held back."""
        if (error := self.why_held_back()) is not None:
            raise error

    def why_held_back(self) -> RunnerLost | None:
        """Return the error for which the artifact is held back; None if it is not."""
        if self._hold is None:
            return None
        left_s = self._hold.until - time.monotonic()
        if left_s <= 0:
            self._hold = None
            return None
        error = self._hold.error
        return type(error)(error.detail, **error.facts, held_back=True, retry_after_s=math.ceil(left_s))


class Deployments(dict[DeploymentKey, Deployment]):
    """The deployments by their keys, as long as each holds something."""

    def forget_if_unused(self, deployment: Deployment) -> None:
        """Forget the deployment if it holds nothing, and is still the one under its key."""
        if deployment.is_forgettable and self.get(deployment.key) is deployment:
            del self[deployment.key]
