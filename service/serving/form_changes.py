"""Form changes: in which form a deployment's runners start, and how another form takes the place of the one as saved.

With `forms`, the forms of an artifact are raced beside its runner, which answers as saved meanwhile. A runner in the
form that won takes its place, and is replaced by one as saved at the first call that it does not answer.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from service.sandbox.zygote import Zygote
from service.serving.closing import Closing
from service.serving.deployment import Deployment
from service.serving.forms import Forms
from service.serving.pool_memory import PoolMemory
from service.serving.runner import Runner, RunnerLimits
from service.serving.seat import Seat
from service.storage.blobs import Blobs
from tracehouse.errors import RunnerLost, ServiceError
from tracehouse.spec.raced_form import RacedForm

# A race of forms has two processes, and that of a form has the weights as saved, those of the form, and those that
# oneDNN has in order: of 12 convolutions in 108 MiB, as saved 137 MiB, and in the forms 251 to 369.
_RACE_TIMES_RUNNER = 4
# After a race that had no memory, or gave way, the next one begins so much later at the earliest. Chosen.
_RACE_AGAIN_S = 60.0

_log = logging.getLogger(__name__)


class FormChanges:
    """Starts runners, each in the form that answers. One race runs at a time, or one runner starts beside another.

    Without `forms`, all answer as saved. `run` has work done that nobody waits for.
    """

    def __init__(
        self,
        zygote: Zygote,
        blobs: Blobs,
        limits: RunnerLimits,
        forms: Forms | None,
        *,
        memory: PoolMemory,
        closing: Closing,
        run: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._zygote = zygote
        self._blobs = blobs
        self._limits = limits
        self._forms = forms
        self._memory = memory
        self._closing = closing
        self._run = run
        self._beside: Runner | None = None  # starts, to take the place of another one
        self._is_racing = False

    @property
    def are_possible(self) -> bool:
        """Whether another form than the one as saved may answer."""
        return self._forms is not None

    @property
    def is_one_starting(self) -> bool:
        """Whether a runner starts to take the place of another one."""
        return self._beside is not None

    async def find(self, deployment: Deployment) -> RacedForm | None:
        """Return the form that is known to answer; None for the form as saved."""
        if self._forms is None:
            return None
        known = await asyncio.to_thread(self._forms.find, deployment.digest, deployment.threads)
        deployment.is_raced = known is not None
        return None if known is None or deployment.is_saved else known.answers

    async def start(self, deployment: Deployment, seat: Seat, form: RacedForm | None) -> Runner:
        """Start the seat's runner in the form; as saved, if it does not start in that.

        Raises ShuttingDown and what a start of a runner raises.
        """
        if form is not None:
            seat.runner = runner = self._new_runner(deployment, seat, form)
            try:
                await runner.start(self._zygote, self._blobs)
                return runner
            except RunnerLost as error:
                if runner.was_evicted or runner.ended_with_zygote or self._closing.is_over:
                    raise
                self.take_back(deployment, seat, f"it did not start: {error.detail}")
        seat.runner = runner = self._new_runner(deployment, seat, None)
        await runner.start(self._zygote, self._blobs)
        return runner

    def take_back(self, deployment: Deployment, seat: Seat, why: str) -> bool:
        """Have the form as saved answer, from the next start on, if the runner has another one; whether it has."""
        if self._forms is None or seat.runner is None or seat.runner.raced_form is None:
            return False
        deployment.is_saved = True  # at once, whatever becomes of the file
        form = seat.runner.raced_form
        self._run(self._forms.take_back(deployment.digest, deployment.threads, form, why))
        if len(deployment.seats) > 1:
            self._run(self.end_other_form(deployment))
        return True

    async def end_other_form(self, deployment: Deployment) -> None:
        """Have the artifact answer as saved from now on. Runners in another form end after their answer."""
        deployment.is_saved = True
        for seat in [*deployment.seats]:
            if seat.runner is not None and seat.runner.raced_form is not None:
                async with seat.turn:
                    await self._end_form_in_turn(seat)

    def race_if_due(self, deployment: Deployment, seat: Seat) -> None:
        """Race the artifact's forms if nobody has, and there is room for it beside all that is there."""
        if self._forms is None or deployment.is_raced or deployment.is_saved or self._closing.has_begun:
            return
        if self._is_racing or self._beside is not None or deployment.is_filling:
            return
        now = time.monotonic()
        if now < deployment.race_at:
            return
        deployment.race_at = now + _RACE_AGAIN_S
        if self._memory.has_room(deployment.tenant, _RACE_TIMES_RUNNER * seat.admitted_bytes):
            self._is_racing = True
            self._run(self._race(self._forms, deployment))

    async def give_way(self) -> None:
        """End what a race of forms has in memory: a runner starts, which needs it more."""
        if self._forms is not None:
            self._forms.give_way()
        if self._beside is not None:
            await self._beside.evict()

    async def close(self) -> None:
        """End the race that runs, and have none begin."""
        await self.give_way()
        if self._forms is not None:
            self._forms.close()

    def _new_runner(self, deployment: Deployment, seat: Seat, form: RacedForm | None) -> Runner:
        """Raises ShuttingDown once the pool is closed."""
        self._closing.refuse_start()
        limits = self._limits.model_copy(update={"threads": deployment.threads})
        expected_bytes = seat.admitted_bytes
        return Runner(deployment.artifact, deployment.digest, limits, expected_bytes=expected_bytes, raced_form=form)

    async def _end_form_in_turn(self, seat: Seat) -> None:
        runner = seat.runner
        if runner is not None and runner.raced_form is not None and seat.has_runner:
            await runner.settle()
            await runner.evict()

    async def _race(self, forms: Forms, deployment: Deployment) -> None:
        if self._closing.has_begun:
            return
        try:
            result = await forms.race(deployment.artifact, deployment.digest, deployment.threads)
        except ServiceError as error:  # a file is missing, or nothing can be forked
            _log.warning("no race of forms", extra={"artifact": deployment.digest, "reason": error.detail})
            return
        finally:
            self._is_racing = False
            deployment.race_at = time.monotonic() + _RACE_AGAIN_S
        if result is None:
            return
        deployment.is_raced = True
        if result.answers is not None:
            for seat in [*deployment.seats]:
                if not await self._change_form(deployment, seat, result.answers):
                    break

    async def _change_form(self, deployment: Deployment, seat: Seat, form: RacedForm) -> bool:
        """Start a runner in the form while the present one answers, and have it take its place between two answers.

        Return whether other seats may follow: not if it gave way to a start, or did not start.
        """
        if self._closing.has_begun or self._beside is not None:
            return False
        if not _may_change_form(deployment, seat):
            return True  # the next start has the form, if it may
        runner = self._beside = self._new_runner(deployment, seat, form)
        try:
            await runner.start(self._zygote, self._blobs)
        except RunnerLost as error:
            if self._forms is not None and not (
                runner.was_evicted or runner.ended_with_zygote or self._closing.is_over
            ):
                why = f"it did not start: {error.detail}"
                await self._forms.take_back(deployment.digest, deployment.threads, form, why)
                await self.end_other_form(deployment)
            return False
        except ServiceError as error:
            _log.warning("no change of forms", extra={"artifact": deployment.digest, "reason": error.detail})
            return False
        finally:
            self._beside = None
        async with seat.turn:
            former = seat.runner
            if self._closing.is_over or former is None or not _may_change_form(deployment, seat):
                await runner.evict()
                return True
            seat.runner = runner
        _log.info("form changed", extra={"artifact": deployment.digest, "form": form.value, "pid": runner.pid})
        await former.evict()
        return True


def _may_change_form(deployment: Deployment, seat: Seat) -> bool:
    return seat.has_runner and seat.starting is None and not seat.is_surplus and not deployment.is_saved
