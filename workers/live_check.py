"""The twin: the model in Python beside an artifact that serves, asked what the artifact has answered.

It is the eager process that checks traces have: in the same jail, with the same walls and the same low priority. One
lives at a time, for one tenant and one artifact, and stays until another one is asked for, or nobody has asked it for a
while.

Two answers are equal if they are by the fixed rule of `tracehouse.differential.comparison`, with the tolerance of the
artifact's check. If they are not, and the request gave no tolerance of its own, the model answers once more in float64,
which tells rounding from error as in the check.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from service import telemetry
from service.domain.live_check import LiveCall, LiveDifference, LiveOutcome, LiveResult
from service.domain.trace_request import TraceRequest
from service.environments.environments import Environments
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.comparison import Answer, ComparisonResult, Difference, Outcome, compare
from tracehouse.differential.out_of_memory import reports_out_of_memory
from tracehouse.differential.three_runs import compare_three_runs
from tracehouse.errors import Failure, LimitExceeded, ModelRaised, ServiceError, TraceError
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Tensor
from workers.limits import TraceLimits
from workers.printed_log import PrintedLog
from workers.processes.children import Children
from workers.processes.client import EagerAnswer, last_line
from workers.processes.eager import EagerProcess
from workers.processes.exits import AttemptStopped

# A turn ends after so long, though its calls may not all be made: another tenant may wait. Chosen.
_TURN_S = 10.0
# A process that does not come back this long after a call's time is over hangs where no alarm reaches it. Chosen.
_GRACE_S = 10.0
# An answer that is larger than this, and than the one that was given in float64, is not taken into memory. Chosen.
_ANSWER_BYTES, _FLOAT64_TIMES = 64 * MIB, 4
# A process is replaced before its processor time is at its limit.
_SHARE_OF_PROCESSOR_TIME = 0.5
_NAMES = ("the model", "the artifact")
_WHY_MAX_CHARACTERS = 500

# Returns a request whose source, weights and environment are those that the artifact was made of.
Plan = Callable[[str, str], TraceRequest]


class _CannotRun(Exception):
    """No answer of this method can be compared; the text says why."""


@dataclass
class _Twin:
    """A process that is ready, and what it is asked with. `close` ends it."""

    key: tuple[str, str]
    artifact: Artifact
    measures_rounding: bool
    seed: int
    eager: EagerProcess
    calls: dict[str, BoundCall]
    stack: ExitStack

    def close(self) -> None:
        self.stack.close()


class TwinRunner:
    """Asks twins. `limits` are those of the process; its wall clock is the time to load. A call may take `call_s`."""

    def __init__(
        self,
        store: Store,
        zygote: Zygote,
        environments: Environments,
        plan: Plan,
        limits: TraceLimits,
        call_s: float,
    ) -> None:
        self._store = store
        self._zygote = zygote
        self._environments = environments
        self._plan = plan
        self._limits = limits
        self._call_s = call_s
        self._cancellation = Cancellation()  # of the process that lives, or starts
        self._is_stopped = False
        self._twin: _Twin | None = None
        self._starting_bytes = 0  # what a process is expected to take that starts

    def check(self, calls: Sequence[LiveCall]) -> list[LiveOutcome]:
        """Return what became of the first of these calls, which are of one tenant and one artifact.

        These are all of them, unless they take long, or the process is lost: then the others are to be asked later.
        """
        outcomes: list[LiveOutcome] = []
        until = time.monotonic() + _TURN_S
        for call in calls:
            try:
                outcome = self._check(call)
            except AttemptStopped:
                break
            outcomes.append(outcome)
            if self._twin is None or time.monotonic() > until:
                break
        if self._twin is not None and self._twin.eager.processor_s > self._limits.cpu_s * _SHARE_OF_PROCESSOR_TIME:
            self.end()
        return outcomes

    def has(self, tenant: str, digest: str) -> bool:
        """Whether the process lives, and has the model of this artifact. Any thread may ask."""
        twin = self._twin
        return twin is not None and twin.key == (tenant, digest) and self._cancellation.reason is None

    @property
    def resident_bytes(self) -> int:
        """The memory that the process takes, if there is one. Any thread may ask."""
        if self._cancellation.reason is not None:
            return 0
        twin = self._twin
        return self._starting_bytes if twin is None else twin.eager.resident_bytes

    def end(self) -> None:
        """End the process, if there is one."""
        twin, self._twin = self._twin, None
        if twin is not None:
            twin.close()

    def give_way(self) -> None:
        """End the process now, from any thread. What it was asked is to be asked again."""
        self._cancellation.set("giving way")

    def stop(self) -> None:
        """End the process now, from any thread, and start none any more."""
        self._is_stopped = True
        self._cancellation.set("stopping")

    def _check(self, call: LiveCall) -> LiveOutcome:
        with telemetry.span("live check", _describe_call(call), parent=call.trace_context or {}) as span:
            outcome = self._check_call(call)
            span.set_attribute("tracehouse.result", outcome.result.value)
            return outcome

    def _check_call(self, call: LiveCall) -> LiveOutcome:
        try:
            twin = self._find(call)
            return self._compare(twin, call)
        except _CannotRun as error:
            return _could_not_run(str(error), lasts=True)
        except AttemptStopped:
            self.end()
            raise
        except ServiceError as error:  # the model's, or that of a file that is gone
            self.end()
            return _could_not_run(_describe(error), lasts=True)
        except BaseException:
            self.end()
            raise

    def _find(self, call: LiveCall) -> _Twin:
        """Return the twin of the artifact that answered. Raises _CannotRun, AttemptStopped and ServiceError."""
        if self._twin is not None and not self.has(call.tenant, call.digest):
            self.end()
        artifact = self._twin.artifact if self._twin else self._store.artifacts.get(call.tenant, call.digest)
        if (why := why_unchecked(artifact, call.method)) is not None:
            raise _CannotRun(why)
        if self._twin is None:
            self._begin(artifact)
            try:
                self._twin = self._start(call.tenant, call.digest, artifact)
            finally:
                self._starting_bytes = 0
        return self._twin

    def _begin(self, artifact: Artifact) -> None:
        """Let a process start that can be ended by itself, unless all are stopped."""
        self._starting_bytes = artifact.archive.byte_size
        self._cancellation = Cancellation()
        if self._is_stopped:  # looked at last: whoever stops sets it first
            self._cancellation.set("stopping")

    def _start(self, tenant: str, digest: str, artifact: Artifact) -> _Twin:
        request = self._plan(tenant, digest)
        assert artifact.conversion is not None  # it was planned
        # Only the examples are called: what else the request is checked on would be held for nothing.
        check = request.spec.check.model_copy(update={"check_inputs": [], "samples": []})
        spec = request.spec.model_copy(update={"check": check})
        with ExitStack() as stack:
            stack.enter_context(self._environments.hold(request.environment))
            children = stack.enter_context(
                Children(
                    request.model_copy(update={"spec": spec}),
                    self._store.blobs,
                    self._zygote,
                    self._environments.packages_of(request.environment),
                    self._limits,
                    self._cancellation,
                    PrintedLog(lambda _: None, 0),
                )
            )
            eager = children.start_eager(stack, artifact.device, artifact.conversion)
            calls, _ = eager.calls(spec)
            return _Twin(
                key=(tenant, digest),
                artifact=artifact,
                measures_rounding=spec.check.measures_rounding,
                seed=spec.options.call_seed,
                eager=eager,
                calls={
                    call.method: replace(call, inputs=[_without_data(one) for one in call.inputs]) for call in calls
                },
                stack=stack.pop_all(),
            )

    def _compare(self, twin: _Twin, call: LiveCall) -> LiveOutcome:
        bound = twin.calls.get(call.method)
        by_name = {tensor.name: tensor for tensor in call.inputs}
        if bound is None or {*by_name} != {tensor.name for tensor in bound.inputs}:
            raise _CannotRun("the model takes other inputs than the artifact")
        inputs = [by_name[tensor.name] for tensor in bound.inputs]
        began = time.monotonic()
        most_bytes = max(_ANSWER_BYTES, _FLOAT64_TIMES * sum(len(tensor.data) for tensor in call.outputs))
        eager = self._ask(twin, bound, inputs, self._call_s, most_bytes)
        if isinstance(eager, Failure):
            return self._judge_failure(eager, call, time.monotonic() - began)
        if eager.drew:
            raise _CannotRun(_DRAWS)

        def ask_float64() -> Answer | str:
            within_s = CALL_LIMITS.float64.after(eager.seconds)
            precise = self._ask(twin, bound, inputs, within_s, most_bytes, float64=True)
            return precise.detail if isinstance(precise, Failure) else precise.answer

        tolerance = twin.artifact.check.tolerance
        compared = compare(eager.answer, call.answer, tolerance, _NAMES)
        if not compared.agrees and twin.measures_rounding:
            compared = compare_three_runs(eager.answer, call.answer, ask_float64, tolerance, _NAMES, rebuilt=True)
        return _judge(compared, call, eager.answer)

    def _judge_failure(self, failure: Failure, call: LiveCall, seconds: float) -> LiveOutcome:
        """A model that raises where its artifact has answered differs from it, unless it had no time or no memory."""
        if seconds >= self._call_s or failure.slug != ModelRaised.slug() or reports_out_of_memory(failure.detail):
            return _could_not_run(_shortened(failure.detail), lasts=True)
        raised = Difference("output", f"the model raises, and the artifact answers: {_shortened(last_line(failure))}")
        return LiveOutcome(LiveResult.DIFFERENT, found=LiveDifference(call, raised, None))

    def _ask(
        self,
        twin: _Twin,
        bound: BoundCall,
        inputs: Sequence[Tensor],
        within_s: float,
        most_bytes: int,
        *,
        float64: bool = False,
    ) -> EagerAnswer | Failure:
        twin.eager.answer_until(time.monotonic() + within_s + _GRACE_S)
        twin.eager.ask(bound, inputs, seed=twin.seed, within_s=within_s, float64=float64)
        return twin.eager.answer(most_bytes)


_DRAWS = "it draws random numbers"


def why_unchecked(artifact: Artifact, method: str) -> str | None:
    """Return why no answer of a method is compared with the model, as far as the manifest says it; or None."""
    if artifact.form == "uploaded" or artifact.check.verdict is Verdict.SELF_CONSISTENT:
        return "there is no model in Python beside it to compare it with"
    if artifact.conversion is None:
        return "an earlier release made it, and how is not known"
    if artifact.device != "cpu":
        return f"answers are compared on the CPU, and it is for {artifact.device}"
    if artifact.training:
        return "it was traced in training mode, in which each call changes the model"
    if artifact.contract.method(method).stochastic:
        return _DRAWS
    return None


def _judge(compared: ComparisonResult, call: LiveCall, eager: Answer) -> LiveOutcome:
    if compared.difference is None:
        return LiveOutcome(LiveResult.EQUAL)
    if compared.outcome is Outcome.INCONCLUSIVE:
        return _could_not_run("the two differ, and nothing tells whether by rounding or by error")
    return LiveOutcome(LiveResult.DIFFERENT, found=LiveDifference(call, compared.difference, eager))


def _describe_call(call: LiveCall) -> telemetry.Attributes:
    return {
        "tracehouse.tenant": call.tenant,
        "tracehouse.model": call.model,
        "tracehouse.version": call.version,
        "tracehouse.method": call.method,
    }


def _could_not_run(why: str, *, lasts: bool = False) -> LiveOutcome:
    return LiveOutcome(LiveResult.COULD_NOT_RUN, why, lasts=lasts)


def _describe(error: ServiceError) -> str:
    if isinstance(error, LimitExceeded) and error.facts.get("limit") == "wall":
        return "the model took too long to load or to answer"
    what = "the model could not be loaded or called: " if isinstance(error, TraceError) else ""
    return _shortened(f"{what}{error.detail}")


def _without_data(tensor: Tensor) -> Tensor:
    """Return a tensor that says what the example is, without holding it as long as the process lives."""
    return Tensor(tensor.name, tensor.datatype, tensor.shape, b"")


def _shortened(text: str) -> str:
    return text if len(text) <= _WHY_MAX_CHARACTERS else text[:_WHY_MAX_CHARACTERS] + " ..."
