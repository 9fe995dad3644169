"""The pool: it asks runners what requests want of them, and has them started on first use, and when they die."""

import asyncio
import logging
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from service.domain.errors import DeviceUnavailable, PoolSaturated
from service.domain.serving_options import ModelKey, ServingOptions
from service.domain.thread_count import ThreadCount
from service.histogram import BATCH_CALLS, Histogram
from service.sandbox.zygote import Zygote
from service.serving.closing import Closing, not_computed
from service.serving.deployment import Deployment, DeploymentKey, Deployments
from service.serving.form_changes import FormChanges
from service.serving.forms import Forms
from service.serving.pending_call import Answer, Joining, PendingCall
from service.serving.pool_memory import Lodger, PoolMemory
from service.serving.replica_changes import ANOTHER_MODEL_SETS_IT, ReplicaChanges
from service.serving.room import Room
from service.serving.runner import Runner, RunnerLimits, RunnerState
from service.serving.seat import Seat
from service.serving.starts import Starts
from service.serving.thread_changes import ThreadChanges
from service.serving.thread_counts import ThreadCounts
from service.storage.blobs import Blobs
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import GoldenCaseFailed, GraphRaised, InferenceTimeout, RunnerLost, ServiceError
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Tensor

_log = logging.getLogger(__name__)


class PoolLimits(Frozen):
    """What all runners together may use, and how long an artifact is held back whose runners die.

    A tenant has a share of the memory until `share_s` seconds after its last request. A runner that nobody has asked
    for `idle_s` seconds is ended, unless that is 0 or its model says otherwise. A model may have up to `threads_max`
    threads compute, and up to `replicas_max` runners answer; `replicas` do where it does not say it.
    """

    runner: RunnerLimits
    memory_max_bytes: int
    waiting_max: int
    share_s: float = 60.0
    idle_s: float = 0.0
    threads_max: int = 1024
    replicas: int = 1
    replicas_max: int = 1024
    hold_s: float = 30.0


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """The runners that live by device, what became of those before, and the calls that wait for one, by device.

    `in_flight` counts those that wait and those that are being answered, by device, too.
    `batches` has how many calls each runner was asked at once, and `starts` the nanoseconds until one was ready.
    `lost` were lost while they loaded or had something to answer, or took too long for it; of these, the answers of
    `refuted` were not those of the golden cases.
    """

    runners: list[tuple[str, Runner]]
    held_back: int
    waiting: dict[str, int]
    in_flight: dict[str, int]
    memory_max_bytes: int
    batches: Histogram
    starts: Histogram
    lost: int
    refuted: int
    evicted: int
    lodger_bytes: int = 0  # what a process beside the runners has of the memory


class Pool:
    """Has runners for a tenant, an artifact and a number of threads: no process sees inputs of two tenants.

    One starts with the first request; where a model wants several, the others follow as long as there is memory for
    them beside all that is there. A request goes to one that is free, and else waits for the first that will be.
    `waiting_max` requests may wait for each artifact; the next is refused at once. If a runner dies, its request is
    asked once more. An artifact that ends two runners in a row, or of several all and one more, or whose golden cases
    fail, is held back for `hold_s`: its requests are refused with the reason. To stay in its memory, the pool has some
    runners evicted for others. With `forms`, an artifact may be answered in another form than as saved; with
    `thread_counts`, with as many threads as were measured to be best; and with `replica_changes`, by as many runners as
    are worth it under its load.
    """

    def __init__(
        self,
        zygote: Zygote,
        blobs: Blobs,
        limits: PoolLimits,
        *,
        devices: Collection[str] = ("cpu",),
        forms: Forms | None = None,
        thread_counts: ThreadCounts | None = None,
        replica_changes: ReplicaChanges | None = None,
    ) -> None:
        self._limits = limits
        self._devices = devices
        self._deployments = Deployments()
        self._closing = Closing()
        self._memory = memory = PoolMemory(
            self._deployments, limits.memory_max_bytes, limits.share_s, limits.runner.infer_timeout_s
        )
        self._forms = FormChanges(
            zygote, blobs, limits.runner, forms, memory=memory, closing=self._closing, run=self._run
        )
        self._threads = ThreadChanges(
            thread_counts, limits.runner.threads, limits.threads_max,
            deployments=self._deployments, memory=memory, closing=self._closing, run=self._run,
        )  # fmt: skip
        self._replicas = replica_changes
        self._starts = Starts(
            self._deployments, memory, self._forms, self._threads, self._closing,
            on_ready=self._wake, on_loss=self._count_further_loss, run=self._run,
        )  # fmt: skip
        self.why_not_kept: dict[DeploymentKey, str] = {}  # why a pinned one is not kept ready, as its keeper says
        self._drained = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._batches = Histogram(BATCH_CALLS)
        self._lost = self._refuted = 0

    def share_memory(self, lodger: Lodger) -> None:
        """Count what the process takes in the pool's memory, and end it where a runner needs that."""
        self._memory.share(lodger)

    def has_room(self, tenant: str, byte_size: int) -> bool:
        """Whether so much fits into the pool's memory beside all that is there."""
        return self._memory.has_room(tenant, byte_size)

    async def infer(
        self,
        tenant: str,
        artifact: Artifact,
        digest: str,
        method: str,
        inputs: Sequence[Tensor],
        *,
        seed: int | None,
        on_turn: Callable[[bool], object] = lambda _: None,
        joining: Joining | None = None,
        as_saved: bool = False,
        row_counts: Sequence[int] = (),
        model: str = "",
        threads: int | None = None,
        replicas: int | None = 1,
    ) -> list[Tensor]:
        """Return the outputs in the contract's order, for inputs that the contract has accepted.

        `seed` seeds the random numbers that are drawn. `on_turn` is called when the request is sent to a runner. With
        `joining`, it may be answered together with others, and `on_turn` gets False if it was joined to another one.
        `as_saved`: the artifact answers as saved from now on. It is called with one of the `row_counts`, if there are
        any. `model` is the name by which it is asked, `threads` are those that compute, as the limits say if it is
        None, and `replicas` is how many runners are to answer; None: as its load shows.

        Raises GraphRaised, AnswerTooLarge, InferenceTimeout, RunnerLost, PoolSaturated, PoolMemoryShort,
        DeviceUnavailable or ShuttingDown.
        """
        answered: asyncio.Future[list[Tensor]] = asyncio.get_running_loop().create_future()
        call = PendingCall(method, inputs, partial(_set, answered), seed, on_turn, joining, row_counts)
        deployment = self._admit(tenant, artifact, digest, model, threads, replicas)
        try:
            if as_saved:
                await self._forms.end_other_form(deployment)
            self._enqueue(deployment, call)
            return await answered
        finally:
            call.leave()
            self._finish_request(deployment)

    def refuse_if_full(self, tenant: str, digest: str, archive_bytes: int, threads: int | None = None) -> None:
        """Raise at once what `infer` would raise now, whatever the inputs are: PoolSaturated, PoolMemoryShort, the
        RunnerLost for which the artifact is held back, or ShuttingDown. The artifact's archive has `archive_bytes`.
        """
        self._closing.refuse_request()
        self._memory.count_request(tenant)
        key = tenant, digest, threads or self._limits.runner.threads
        deployment = self._deployments.get(key)
        if deployment is not None:
            self._refuse_if_full(deployment)
            if deployment.is_taken:
                return
        if not self._forms.are_possible:  # as saved it may take less than it was seen to take
            self._memory.refuse_first(key, archive_bytes)

    def find_ready(
        self, tenant: str, digest: str, threads: int | None = None, *, as_saved: bool = False
    ) -> Deployment | None:
        """Return the artifact's deployment if a call of it can be submitted: if it has a runner, and few calls wait.

        `as_saved`: the runner must answer as saved.
        """
        deployment = self._deployments.get((tenant, digest, threads or self._limits.runner.threads))
        if deployment is None or self._closing.has_begun or deployment.is_held_back or not deployment.is_answering:
            return None
        if deployment.pending > self._limits.waiting_max:
            return None
        return None if as_saved and not deployment.is_all_saved else deployment

    def submit(self, deployment: Deployment, call: PendingCall, model: str = "", replicas: int | None = 1) -> None:
        """Ask what `infer` asks without waiting, of a deployment that `find_ready` has returned."""
        finish = call.finish

        def finish_request(answer: Answer) -> None:
            self._finish_request(deployment)
            finish(answer)

        call.finish = finish_request
        self._memory.count_request(deployment.tenant)
        self._count_request(deployment, model, replicas)
        self._enqueue(deployment, call)

    async def prepare(
        self,
        tenant: str,
        artifact: Artifact,
        digest: str,
        *,
        as_saved: bool = False,
        model: str = "",
        threads: int | None = None,
        replicas: int | None = 1,
    ) -> None:
        """Return when a runner is ready for the artifact. Raises what `infer` raises, apart from errors of a call."""
        deployment = self._admit(tenant, artifact, digest, model, threads, replicas)
        try:
            if as_saved:
                await self._forms.end_other_form(deployment)
            seat = deployment.seat_to_use()
            async with seat.turn:
                await self._use_twice(deployment, seat)
                seat.used_at = time.monotonic()
            self._starts.fill_if_due(deployment)
        finally:
            self._finish_request(deployment)

    async def _use_twice(self, deployment: Deployment, seat: Seat) -> None:
        try:
            await self._use(deployment, seat)
            return
        except RunnerLost:
            deployment.refuse_if_held_back()
        await self._use(deployment, seat)

    async def release(self, tenant: str, digest: str, threads: int | None = None) -> None:
        """End the artifact's runners, if it has some, each once it has answered the request that has its turn.

        One that was to take their place ends, too.
        """
        key = tenant, digest, threads or self._limits.runner.threads
        for deployment in [*self._deployments.values()]:
            if deployment.key == key or (deployment.is_beside and deployment.key[:2] == key[:2]):
                deployment.is_beside = False
                await self._release_all(deployment)

    async def _release_all(self, deployment: Deployment) -> None:
        deployment.fill_at = math.inf
        try:
            await asyncio.gather(*(self._release(seat) for seat in deployment.seats))
        finally:
            deployment.fill_at = -math.inf
        self._deployments.forget_if_unused(deployment)

    async def _release(self, seat: Seat) -> None:
        async with seat.turn:
            await self._release_in_turn(seat)

    async def _release_in_turn(self, seat: Seat) -> None:
        if seat.runner is not None:
            await seat.runner.settle()
            await seat.runner.close()

    @property
    def models(self) -> set[ModelKey]:
        """The models by whose names the runners that live were asked."""
        living = [deployment for deployment in self._deployments.values() if deployment.has_runner]
        return {model for deployment in living for model in deployment.model_keys}

    def pin(self, keys: Collection[DeploymentKey]) -> None:
        """Have the runners of these stay, as far as the shares of their tenants go, and no others. It starts none."""
        self._memory.pin(keys)
        self.why_not_kept = {key: why for key, why in self.why_not_kept.items() if key in self._memory.pinned}

    def would_stay(self, key: DeploymentKey, archive_bytes: int) -> bool:
        """Whether a pinned runner that is started for an artifact would stay, beside the tenant's other pinned ones."""
        return self._memory.would_stay(key, archive_bytes)

    def take_up(self, digest: str) -> None:
        """Remember what was found of the artifact before, so that its first runner is started so. It may read a file,
        on any thread."""
        self._threads.take_up(digest)

    def threads(self, tenant: str, digest: str, options: ServingOptions) -> int:
        """Return how many threads compute now for an artifact of a model with these options."""
        return self._threads.threads(tenant, digest, options)

    def explain_threads(self, digest: str, options: ServingOptions, threads: int) -> tuple[str, ThreadCount | None]:
        """Return why so many threads compute, and what was measured. It may read a file, on any thread."""
        return self._threads.explain(digest, options, threads)

    def replicas(self, wanted: int | None) -> int | None:
        """Return how many runners are to answer for a model for which so many are wanted; None: as its load shows."""
        if wanted is None and self._replicas is not None:
            return None
        return min(wanted or self._limits.replicas, self._limits.replicas_max)

    def explain_replicas(self, tenant: str, digest: str, options: ServingOptions, threads: int) -> tuple[int, str]:
        """Return how many runners with so many threads are to answer now, and why. Any thread may ask it."""
        deployment, count = self._deployments.get((tenant, digest, threads)), self.replicas(options.replicas)
        if count is None:
            assert self._replicas is not None
            return self._replicas.explain(deployment, threads)
        if deployment is not None and deployment.replicas > count:
            return deployment.replicas, ANOTHER_MODEL_SETS_IT
        wanted = options.replicas or self._limits.replicas
        why = "RUNNER_REPLICAS" if options.replicas is None else "the model's option `replicas`"
        return count, why + (", and there are no more processors" if count < wanted else "")

    def look_after(self, options: Mapping[ModelKey, ServingOptions | None]) -> None:
        """End and start runners as these options of their models say, or the limits; None: there is no such model.

        Those that nobody has asked for as long as is said there end, unless they are pinned. Those whose models are to
        have other threads by now end as soon as they have answered, and so do those that are more than are to answer.
        Of those that are fewer, one is started, if there is memory for it. One that loads, and was stopped by a signal
        at two looks in a row, is lost.
        """
        if self._replicas is not None:
            self._replicas.look_after([*self._deployments.values()], self._memory)
        room: Room | None = None  # the same for all: measuring each runner for each of them takes too long
        for deployment in [*self._deployments.values()]:
            for seat in deployment.seats:
                if seat.runner is not None and seat.runner.state is RunnerState.STARTING:
                    self._run(seat.runner.end_if_stopped())
            self._go_by(deployment, options)
            its = [one for key in deployment.model_keys if (one := options.get(key)) is not None]
            self._threads.look_after(deployment, its, self._starts.fill_if_due)
            ready = next((seat for seat in deployment.seats if seat.is_ready), None)
            if ready is not None and self._threads.puts_races_off and not self._threads.is_measuring:
                self._forms.race_if_due(deployment, ready)  # the answer after which it was due may have been the last
            idle_s = self._idle_s(deployment, options.get(ModelKey(deployment.tenant, deployment.model)))
            if idle_s is not None and deployment.is_idle(idle_s):
                for seat in deployment.seats:
                    if seat.is_ready and seat.turn.take():
                        self._run(self._end_idle(deployment, seat))
            elif deployment.seat_to_fill() is not None:
                room = room or self._memory.room()
                self._starts.fill_if_due(deployment, room)

    def _go_by(self, deployment: Deployment, options: Mapping[ModelKey, ServingOptions | None]) -> None:
        """Have as many runners answer as the models want that have asked for it, by their options now."""
        for name in [*deployment.wanted]:
            key = ModelKey(deployment.tenant, name)
            if key not in options:  # it asked a moment ago
                continue
            its = options[key]
            if its is None or self._threads_of(deployment, its) != deployment.threads:
                del deployment.wanted[name]
            else:
                deployment.wanted[name] = self.replicas(its.replicas)
        self._resize(deployment)

    def _idle_s(self, deployment: Deployment, options: ServingOptions | None) -> float | None:
        """Return after how many seconds without a request the runners end; None: never."""
        if deployment.key in self._memory.pinned:
            return None
        is_left = options is not None and self._threads_of(deployment, options) != deployment.threads
        if is_left and not deployment.wanted:
            return 0.0
        own_s = None if options is None else options.idle_s
        return (self._limits.idle_s if own_s is None else own_s) or None

    def _threads_of(self, deployment: Deployment, options: ServingOptions) -> int:
        return self.threads(deployment.tenant, deployment.digest, options)

    async def _end_idle(self, deployment: Deployment, seat: Seat) -> None:
        """End an idle runner in its turn: a request that comes now waits for the turn, and starts another."""
        try:
            if seat.runner is not None and seat.is_ready and deployment.pending == 0:  # nobody came in the meantime
                _log.info("idle runner ended", extra={"artifact": deployment.digest, "pid": seat.runner.pid})
                await seat.runner.close()
        finally:
            seat.turn.give()
        self._deployments.forget_if_unused(deployment)

    def _count_request(self, deployment: Deployment, model: str, replicas: int | None) -> None:
        """Count one more request, and have so many runners answer under its name, unless another name wants more."""
        deployment.model = model
        if model not in deployment.wanted or deployment.wanted[model] != replicas:
            deployment.wanted[model] = replicas
            self._resize(deployment)
        deployment.pending += 1

    def _resize(self, deployment: Deployment) -> None:
        for seat in deployment.resize():
            self._run(self._end_surplus(deployment, seat))

    async def _end_surplus(self, deployment: Deployment, seat: Seat) -> None:
        """End a seat's runner once it has answered, and take the seat away."""
        async with seat.turn:
            if seat.starting is not None:
                await asyncio.wait([seat.starting])
            await self._release_in_turn(seat)
            deployment.seats.remove(seat)
        self._deployments.forget_if_unused(deployment)

    def _admit(
        self, tenant: str, artifact: Artifact, digest: str, model: str, threads: int | None, replicas: int | None
    ) -> Deployment:
        """Count one more request of the artifact. Raises what `infer` raises before a runner is asked."""
        self._closing.refuse_request()
        if artifact.device not in self._devices:
            raise DeviceUnavailable(
                f"the artifact is for {artifact.device}, and this service has none", devices=[*self._devices]
            )
        key = tenant, digest, threads or self._limits.runner.threads
        deployment = self._deployments.get(key)
        if deployment is None:
            deployment = self._deployments[key] = Deployment(tenant, artifact, *key[1:], self._wake)
            self._threads.expect(deployment)
        self._memory.count_request(tenant)
        self._refuse_if_full(deployment)
        self._count_request(deployment, model, replicas)
        return deployment

    def _refuse_if_full(self, deployment: Deployment) -> None:
        """Raises the RunnerLost for which the artifact is held back, or PoolSaturated."""
        deployment.refuse_if_held_back()
        waiting_max = self._limits.waiting_max
        if deployment.pending > waiting_max:
            raise PoolSaturated(f"{waiting_max} requests wait for this artifact", waiting_max=waiting_max)

    def _enqueue(self, deployment: Deployment, call: PendingCall) -> None:
        deployment.waiting.append(call)
        call.on_leave = deployment.drop
        self._wake(deployment)

    def _wake(self, deployment: Deployment) -> None:
        """Look at the waiting calls once all that this turn of the event loop brings is there, so that they are joined.

        No timer: a call that is alone waits for nothing.
        """
        if deployment.waiting and not deployment.is_woken:
            deployment.is_woken = True
            asyncio.get_running_loop().call_soon(self._serve, deployment)

    def _serve(self, deployment: Deployment) -> None:
        deployment.is_woken = False
        if not deployment.waiting:
            return
        seats = deployment.seats
        if len(seats) > 1:
            self._share_out(deployment)
            return
        seat = seats[0]
        if not seat.turn.take():
            return
        runner = seat.runner
        if (
            runner is not None
            and runner.state is RunnerState.READY
            and not deployment.is_held_back
            and not self._closing.is_over
        ):
            self._ask_next(deployment, seat, runner)
        else:
            self._run(self._serve_anew(deployment, seat))

    def _share_out(self, deployment: Deployment) -> None:
        """Have all runners that are free asked, each a part of what waits. One is started if none is there.

        A part, and not as much as can be joined: the others would stand idle meanwhile.
        """
        if self._closing.is_over or deployment.why_held_back() is not None:
            seat = min(deployment.seats, key=lambda seat: seat.turn.is_taken)
            if seat.turn.take():
                self._run(self._serve_anew(deployment, seat))  # it refuses what waits
            return
        free = deployment.free_seats()
        for place, seat in enumerate(free):
            if deployment.waiting and seat.runner is not None and seat.turn.take():
                self._ask_next(deployment, seat, seat.runner, math.ceil(len(deployment.waiting) / (len(free) - place)))
        if not deployment.waiting:
            return
        if not free and (seat_to_start := deployment.seat_to_start()) is not None and seat_to_start.turn.take():
            self._run(self._serve_anew(deployment, seat_to_start))
        else:
            self._starts.fill_if_due(deployment)

    def _ask_next(self, deployment: Deployment, seat: Seat, runner: Runner, calls_max: int = sys.maxsize) -> None:
        """Ask the runner what waits longest. The turn is given back when it has answered."""
        group = deployment.take_group(calls_max)
        if group is None:
            seat.turn.give()
            return
        self._batches.add(len(group.calls))
        for place, call in enumerate(group.calls):
            call.on_turn(place == 0)
        deployment.load.begin(seat.number)
        runner.ask(group, partial(self._take_answers, deployment, seat))

    async def _serve_anew(self, deployment: Deployment, seat: Seat) -> None:
        """Have a runner ready, and ask it. If there can be none, the call that waits longest gets the error."""
        if not deployment.waiting:  # whoever waited has left
            seat.turn.give()
            return
        asking = deployment.waiting.popleft()
        try:
            self._closing.refuse_start()
            deployment.refuse_if_held_back()
        except ServiceError as error:
            _finish(asking, error)
            seat.turn.give()
            return
        try:
            runner = await self._ready_runner(deployment, seat)
            if runner.state is not RunnerState.READY:  # it may end, or be evicted, before this task goes on
                raise RunnerLost("it ended before it was asked")
        except RunnerLost as error:
            self._end_lost(deployment, seat, [asking], error)
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits must hear of it
            _finish(asking, error)
        else:
            deployment.put_back(asking)
            self._ask_next(deployment, seat, runner)
            return
        seat.turn.give()

    def _take_answers(self, deployment: Deployment, seat: Seat, ended: Sequence[tuple[PendingCall, Answer]]) -> None:
        """Hand out what the runner has said, ask anew what it was lost with, and give the turn back."""
        lost = [(call, answer) for call, answer in ended if isinstance(answer, RunnerLost)]
        answered = [(call, answer) for call, answer in ended if not isinstance(answer, RunnerLost)]
        deployment.load.end(seat.number, len(answered))
        if any(isinstance(answer, InferenceTimeout) for _, answer in answered):
            self._lost += 1  # it was killed
            self._forms.take_back(deployment, seat, "it took too long to answer")
        if lost:
            self._end_lost(deployment, seat, [call for call, _ in lost], lost[0][1])
        raised = next((answer for _, answer in answered if isinstance(answer, GraphRaised)), None)
        if raised is not None and self._forms.take_back(deployment, seat, f"it raised: {raised.detail}"):
            self._run(self._ask_as_saved(deployment, seat, answered))
            return
        if any(not isinstance(answer, InferenceTimeout) for _, answer in answered):
            deployment.deaths_in_a_row = 0
            if seat.count_answer():
                self._run(self._admit_anew(deployment, seat, answered))
                return
        for call, answer in answered:
            _finish(call, answer)
        seat.turn.give()
        if len(deployment.seats) > 1:
            self._starts.fill_if_due(deployment)
        if not self._threads.is_measuring:
            self._forms.race_if_due(deployment, seat)

    async def _ask_as_saved(
        self, deployment: Deployment, seat: Seat, answered: Sequence[tuple[PendingCall, Answer]]
    ) -> None:
        """End a runner whose form raised, and have those calls asked anew in the form as saved, which may answer."""
        try:
            assert seat.runner is not None
            await seat.runner.evict()
        finally:
            for call, answer in reversed(answered):
                if isinstance(answer, GraphRaised):
                    deployment.put_back(call)
                else:
                    _finish(call, answer)
            seat.turn.give()

    async def _admit_anew(
        self, deployment: Deployment, seat: Seat, answered: Sequence[tuple[PendingCall, Answer]]
    ) -> None:
        try:
            await self._memory.readmit(deployment, seat)
        finally:
            for call, answer in answered:
                _finish(call, answer)
            seat.turn.give()

    def _end_lost(self, deployment: Deployment, seat: Seat, calls: Sequence[PendingCall], error: RunnerLost) -> None:
        """End calls whose runner was lost. Those that have lost no other one are asked once more.

        One that was evicted is not lost: as long as another one answers, they are asked of that.
        """
        ending = self._count_loss(deployment, seat, error)
        was_evicted = seat.runner is not None and seat.runner.was_evicted
        for call in reversed(calls):
            if ending is None and (was_evicted or not call.has_lost_a_runner):
                call.has_lost_a_runner = call.has_lost_a_runner or not was_evicted
                deployment.put_back(call)
            else:
                _finish(call, ending or error)

    def _count_loss(self, deployment: Deployment, seat: Seat, error: RunnerLost) -> ServiceError | None:
        """Count a lost runner; return the error with which its requests end, or None if another one may be asked."""
        if self._closing.is_over:
            return not_computed()
        if seat.runner is not None and seat.runner.was_evicted:
            if deployment.is_answering:  # by another one
                return None
            return self._memory.short(deployment, seat, "the model's process was ended for another tenant's")
        self._lost += 1
        ended_with_zygote = seat.runner is not None and seat.runner.ended_with_zygote
        if not ended_with_zygote and self._forms.take_back(deployment, seat, f"its process was lost: {error.detail}"):
            return None
        self._note_loss(deployment, error)
        deployment.count_death(seat, error, self._limits.hold_s)
        if isinstance(error, GoldenCaseFailed):
            self._threads.take_back(deployment, error.detail)
        return deployment.why_held_back()

    def _count_further_loss(self, deployment: Deployment, seat: Seat, error: RunnerLost) -> None:
        """Count a runner that was lost while it started beside others, which go on answering."""
        self._lost += 1
        self._note_loss(deployment, error)
        if isinstance(error, GoldenCaseFailed):
            deployment.count_death(seat, error, self._limits.hold_s)
            self._threads.take_back(deployment, error.detail)

    def _note_loss(self, deployment: Deployment, error: RunnerLost) -> None:
        self._refuted += isinstance(error, GoldenCaseFailed)
        _log.warning("runner lost", extra={"artifact": deployment.digest, "reason": error.detail})

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def runners(self) -> dict[DeploymentKey, Runner]:
        """Of the runners that live, one for each tenant, artifact's digest, and number of threads."""
        return {key: runners[0] for key in self._deployments if (runners := self.replicas_of(key))}

    def replicas_of(self, key: DeploymentKey) -> list[Runner]:
        """Return the runners that live for a tenant, an artifact's digest, and a number of threads."""
        deployment = self._deployments.get(key)
        seats = [] if deployment is None else deployment.seats
        return [seat.runner for seat in seats if seat.runner is not None and seat.has_runner]

    def figures(self) -> PoolFigures:
        """Return what the runners do now, and what became of those before."""
        deployments = [*self._deployments.values()]
        waiting, in_flight = (Counter(dict.fromkeys(self._devices, 0)) for _ in range(2))
        for deployment in deployments:
            waiting[deployment.artifact.device] += len(deployment.waiting)
            in_flight[deployment.artifact.device] += deployment.pending
        return PoolFigures(
            runners=[
                (deployment.artifact.device, runner)
                for deployment in deployments
                for runner in self.replicas_of(deployment.key)
            ],
            held_back=sum(deployment.why_held_back() is not None for deployment in deployments),
            waiting=dict(waiting),
            in_flight=dict(in_flight),
            memory_max_bytes=self._limits.memory_max_bytes,
            batches=self._batches,
            starts=self._starts.durations,
            lost=self._lost,
            refuted=self._refuted,
            evicted=self._memory.evicted,
            lodger_bytes=self._memory.lodger_bytes,
        )

    async def close(self, grace_s: float) -> None:
        """Take no more requests, let the pending ones finish for `grace_s` seconds, then kill every runner."""
        self._closing.has_begun = True
        if self._is_drained():
            self._drained.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._drained.wait()
        self._closing.is_over = True
        self._threads.close()
        await self._forms.close()
        seats = [seat for deployment in self._deployments.values() for seat in deployment.seats]
        starting = [seat.starting for seat in seats if seat.starting is not None]
        await asyncio.gather(*(seat.runner.close() for seat in seats if seat.runner is not None and seat.has_runner))
        await asyncio.gather(*starting, return_exceptions=True)

    async def _use(self, deployment: Deployment, seat: Seat) -> None:
        self._closing.refuse_start()
        deployment.refuse_if_held_back()
        try:
            await self._ready_runner(deployment, seat)
        except RunnerLost as error:
            if (ending := self._count_loss(deployment, seat, error)) is None:
                raise
            raise ending from error

    async def _ready_runner(self, deployment: Deployment, seat: Seat) -> Runner:
        if seat.runner is not None:
            await seat.runner.settle()
            if seat.runner.state is RunnerState.READY:
                return seat.runner
        # Shielded: the next request waits for this runner, also when the one that started it is cancelled.
        return await asyncio.shield(seat.starting or self._starts.begin(deployment, seat))

    def _is_drained(self) -> bool:
        return not any(deployment.pending for deployment in self._deployments.values())

    def _finish_request(self, deployment: Deployment) -> None:
        deployment.pending -= 1
        deployment.used_at = time.monotonic()
        self._deployments.forget_if_unused(deployment)
        if self._closing.has_begun and self._is_drained():
            self._drained.set()


def _finish(call: PendingCall, answer: Answer) -> None:
    """Hand out an answer. Whatever goes wrong there, the other calls have theirs."""
    try:
        call.end(answer)
    except Exception:  # noqa: BLE001 - it is logged
        _log.exception("an answer could not be handed out")


def _set(answered: asyncio.Future[list[Tensor]], answer: Answer) -> None:
    if answered.done():  # whoever waited has left
        return
    if isinstance(answer, Exception):
        answered.set_exception(answer)
    else:
        answered.set_result(answer)
