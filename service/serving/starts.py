"""Starts: they fill seats with runners. For a request others may end; for a further runner nothing does."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from service.domain.errors import PoolMemoryShort
from service.histogram import ANSWER_NS, Histogram
from service.serving.closing import Closing
from service.serving.deployment import Deployment, Deployments
from service.serving.form_changes import FormChanges
from service.serving.pool_memory import PoolMemory
from service.serving.room import Need, Room
from service.serving.runner import Runner
from service.serving.seat import Seat
from service.serving.thread_changes import ThreadChanges
from tracehouse.errors import RunnerLost, ServiceError

_log = logging.getLogger(__name__)


class Starts:
    """Fills seats of deployments with runners. `durations` has the nanoseconds until each was ready.

    `on_ready` is called when a deployment has one more runner, and `on_loss` for a further one that was lost while it
    started. `run` has work done that nobody waits for.
    """

    def __init__(
        self,
        deployments: Deployments,
        memory: PoolMemory,
        forms: FormChanges,
        threads: ThreadChanges,
        closing: Closing,
        *,
        on_ready: Callable[[Deployment], object],
        on_loss: Callable[[Deployment, Seat, RunnerLost], object],
        run: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.durations = Histogram(ANSWER_NS)
        self._deployments = deployments
        self._memory = memory
        self._forms = forms
        self._threads = threads
        self._closing = closing
        self._on_ready = on_ready
        self._on_loss = on_loss
        self._run = run

    def begin(self, deployment: Deployment, seat: Seat, *, may_evict: bool = True) -> "asyncio.Task[Runner]":
        """Start a runner in the seat. With `may_evict`, others may end for it first.

        The task raises PoolMemoryShort, also where another runner would have to end and none is to, and what a start of
        a runner raises.
        """
        seat.starting = asyncio.create_task(self._start(deployment, seat, may_evict=may_evict))
        return seat.starting

    def fill_if_due(self, deployment: Deployment, room: Room | None = None) -> None:
        """Start a runner that is missing beside others, if there is memory for it without an end of anything else.

        Whatever ended for it would be missed as much: two models could take the memory from each other for ever.
        """
        if self._closing.has_begun or self._forms.is_one_starting or (seat := deployment.seat_to_fill()) is None:
            return
        self._memory.expect(deployment, seat)
        if not (room or self._memory.room()).fits(Need(deployment.tenant, seat.admitted_bytes)):
            deployment.find_no_room()
            return
        seat.turn.take()
        deployment.is_filling = True
        self._run(self._fill(deployment, seat, self.begin(deployment, seat, may_evict=False)))

    async def _fill(self, deployment: Deployment, seat: Seat, starting: "asyncio.Task[Runner]") -> None:
        """Wait for a runner that starts beside others: no request waits for it, and its end ends none."""
        has_failed, has_no_room = True, False
        try:
            await starting
            seat.used_at, has_failed = time.monotonic(), False
        except RunnerLost as error:
            has_no_room = seat.runner is not None and seat.runner.was_evicted
            if not self._closing.is_over and not has_no_room:
                self._on_loss(deployment, seat, error)
        except ServiceError as error:
            has_no_room = isinstance(error, PoolMemoryShort)
            _log.info("no further runner", extra={"artifact": deployment.digest, "reason": error.detail})
        except Exception:  # noqa: BLE001 - the others go on answering
            _log.exception("a further runner could not be started", extra={"artifact": deployment.digest})
        finally:
            deployment.is_filling = False
            if has_no_room:
                deployment.find_no_room()
            else:
                deployment.count_fill(has_failed=has_failed)
            seat.turn.give()
        self.fill_if_due(deployment)
        self._deployments.forget_if_unused(deployment)

    async def _start(self, deployment: Deployment, seat: Seat, *, may_evict: bool) -> Runner:
        began = time.monotonic()
        self._memory.expect(deployment, seat)
        seat.waits_for_room = may_evict  # what may end nothing keeps nothing away from others either
        try:
            if seat.runner is not None:
                await seat.runner.close()  # it may be about to end, and has its memory until then
            self._threads.give_way()
            await self._forms.give_way()
            if may_evict:
                await self._make_room_in_some_form(deployment, seat)
            form = await self._forms.find(deployment)
            if not may_evict and not self._memory.has_room(deployment.tenant, seat.admitted_bytes):
                raise self._memory.short(deployment, seat)
            seat.waits_for_room = False  # from here on, a runner has it
            runner = await self._forms.start(deployment, seat, form)
        finally:
            seat.starting = None
            seat.waits_for_room = False
        seconds = round(time.monotonic() - began, 3)
        self.durations.add(round(seconds * 1e9))
        _log.info("runner ready", extra={"artifact": deployment.digest, "pid": runner.pid, "seconds": seconds})
        self._on_ready(deployment)  # whoever had it started may have left
        return runner

    async def _make_room_in_some_form(self, deployment: Deployment, seat: Seat) -> None:
        """Make room for what a runner of the deployment was seen to take; else for it as saved, if that was a form.

        Raises PoolMemoryShort.
        """
        try:
            await self._memory.make_room(deployment, seat)
        except PoolMemoryShort:
            if await self._forms.find(deployment) is None:
                raise
            deployment.is_saved = True
            self._memory.forget_size(deployment)
            self._memory.expect(deployment, seat)
            await self._memory.make_room(deployment, seat)
