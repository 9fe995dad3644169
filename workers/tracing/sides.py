"""The two sides of a verification as the worker sees them: a process with the eager model, one with the artifact.

What they say is parsed and bounded here, and never a reason to look into what was submitted or made.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from service.domain.contract import Argument, Contract, MethodContract, Structure, TupleNode, tensors_of
from service.domain.errors import ArchiveUnusable, Failure, LimitExceeded, TracerLost
from service.domain.tensor import Tensor, TensorSpec, split
from service.domain.trace_request import TraceSpec
from service.sandbox.bounds import ANSWER_MAX_BYTES, INPUTS_MAX_BYTES
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import MalformedFrame
from service.sandbox.child import Child
from service.sandbox.messages import (
    EXAMPLE,
    Answered,
    Ask,
    Bound,
    Failed,
    Infer,
    Inferred,
    Load,
    Ready,
    Refused,
    Trace,
    from_reference,
    from_runner,
)
from workers.closeness import Answer
from workers.tracing.ends import of_archive, of_model, talking, told
from workers.tracing.limits import TraceLimits

REFERENCE = "workers.tracing.reference"
RUNNER = "workers.runner"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BoundCall:
    """A call of the request's: what it is called with."""

    case: str
    method: str
    arguments: list[Argument]
    inputs: list[Tensor]

    @property
    def specs(self) -> list[TensorSpec]:
        return [tensor.spec for tensor in self.inputs]


@dataclass(frozen=True)
class EagerAnswer:
    answer: Answer
    drew: bool
    seconds: float

    @property
    def byte_size(self) -> int:
        return sum(len(leaf.data) for leaf in self.answer.leaves.values())


class EagerSide:
    """The reference. `start` it, hear its `calls`, then ask: an answer, or the failure with which it refuses."""

    def __init__(self, child: Child, limits: TraceLimits, cancellation: Cancellation, until: float) -> None:
        self._child = child
        self._limits = limits
        self._cancellation = cancellation
        self._until = until

    def start(self, request: Trace) -> None:
        with self._talking():
            self._child.channel.send(request.model_dump(mode="json"), until=self._until)

    def calls(self, spec: TraceSpec) -> tuple[list[BoundCall], dict[str, EagerAnswer | Failure]]:
        """Every call of the request's in its order, and the answers to the examples by their methods."""
        calls: list[BoundCall] = []
        answers: dict[str, EagerAnswer | Failure] = {}
        left_bytes, left_answer_bytes = INPUTS_MAX_BYTES, ANSWER_MAX_BYTES
        examples = [(EXAMPLE, method) for method in spec.calls]
        given = [(f"check_inputs[{index}]", one.method) for index, one in enumerate(spec.check.check_inputs)]
        for case, method in [*examples, *given]:
            calls.append(self._call(case, method, left_bytes))
            left_bytes -= sum(len(tensor.data) for tensor in calls[-1].inputs)
            if case == EXAMPLE:
                answers[method] = answer = self.answer(left_answer_bytes)
                left_answer_bytes -= answer.byte_size if isinstance(answer, EagerAnswer) else 0
        return calls, answers

    def ask(self, call: BoundCall, inputs: Sequence[Tensor], *, seed: int, within_s: float | None) -> None:
        """Call it as in that call, but on these inputs."""
        specs = [tensor.spec for tensor in inputs]
        ask = Ask(case=call.case, method=call.method, inputs=specs, seed=seed, within_s=within_s)
        with self._talking():
            self._child.channel.send(
                ask.model_dump(mode="json"), *(tensor.data for tensor in inputs), until=self._until
            )

    def answer(self, most_bytes: int = ANSWER_MAX_BYTES) -> EagerAnswer | Failure:
        with self._talking():
            message, body = self._hear(most_bytes, _answers_too_large)
            match message:
                case Answered():
                    answer = _answer(message.returns, message.outputs, body)
                    return EagerAnswer(answer, message.drew, message.seconds)
                case Refused():
                    return message.failure
            raise MalformedFrame(f"{message.kind} came for an answer")

    def kill(self) -> None:
        self._child.kill()

    def _call(self, case: str, method: str, most_bytes: int) -> BoundCall:
        with self._talking():
            message, body = self._hear(most_bytes, _inputs_too_large)
            if not isinstance(message, Bound) or (message.case, message.method) != (case, method):
                raise MalformedFrame(f"{case} of {method} was to come")
            if len({argument.name for argument in message.arguments}) < len(message.arguments):
                raise MalformedFrame("two arguments have one name")
            names = [name for argument in message.arguments for name in tensors_of(argument.structure)]
            return BoundCall(case, method, message.arguments, _split(names, message.inputs, body))

    def _hear(
        self, most_bytes: int, too_large: Callable[[], LimitExceeded]
    ) -> tuple[Bound | Answered | Refused, bytearray]:
        header, size = self._child.channel.receive_header(self._until)
        if size > most_bytes:
            raise too_large()
        message = from_reference.validate_python(header)
        body = self._child.channel.receive_body(self._until)
        if isinstance(message, Failed):
            if message.failure.slug == TracerLost.slug():
                extra = {"detail": message.failure.detail, "log": self._child.log.text()}
                log.error("the reference failed", extra=extra)
            raise told(message.failure)
        return message, body

    def _talking(self) -> AbstractContextManager[None]:
        return talking(self._child, self._limits, self._cancellation, of_model)


class ArtifactSide:
    """The archive in the form that is going to be served, loaded by what is going to serve it."""

    def __init__(self, child: Child, limits: TraceLimits, cancellation: Cancellation, until: float) -> None:
        self._child = child
        self._limits = limits
        self._cancellation = cancellation
        self._until = until

    def start(self, spec: TraceSpec) -> None:
        # Its contract is not known yet, but for the methods that it must have.
        empty = MethodContract(arguments=[], inputs=[], outputs=[], returns=TupleNode(tuple=[]))
        load = Load(
            contract=Contract(methods=dict.fromkeys(spec.calls, empty)),
            freeze=spec.options.freeze,
            tolerance=None,
            threads=self._limits.threads_per_side,
        )
        with self._talking():
            self._child.channel.send(load.model_dump(mode="json"), until=self._until)

    def wait(self) -> None:
        """Until it is loaded. Raises ArchiveUnusable."""
        with self._talking():
            match self._hear():
                case Ready(), _:
                    return
                case Failed() as message, _:
                    raise ArchiveUnusable(message.failure.detail)
            raise MalformedFrame("it answered before it was asked")

    def ask(self, call: BoundCall, inputs: Sequence[Tensor]) -> None:
        """Call it with inputs that nest as in that call."""
        ask = Infer(
            method=call.method,
            inputs=[tensor.spec for tensor in inputs],
            answer_max_bytes=ANSWER_MAX_BYTES,
            arguments=call.arguments,
        )
        with self._talking():
            self._child.channel.send(
                ask.model_dump(mode="json"), *(tensor.data for tensor in inputs), until=self._until
            )

    def answer(self) -> Answer | str:
        """What it returned, or what it raised."""
        with self._talking():
            message, body = self._hear()
            match message:
                case Inferred() if message.returns is not None:
                    return _answer(message.returns, message.outputs, body)
                case Failed():
                    # torch puts what happened at the end, after the lines of the graph.
                    lines = message.failure.detail.strip().splitlines()
                    return lines[-1] if lines else message.failure.slug
            raise MalformedFrame(f"{message.kind} came for an answer")

    def kill(self) -> None:
        self._child.kill()

    def _hear(self) -> tuple[Ready | Inferred | Failed, bytearray]:
        header, size = self._child.channel.receive_header(self._until)
        if size > ANSWER_MAX_BYTES:
            raise _answers_too_large()
        return from_runner.validate_python(header), self._child.channel.receive_body(self._until)

    def _talking(self) -> AbstractContextManager[None]:
        return talking(self._child, self._limits, self._cancellation, of_archive)


def _inputs_too_large() -> LimitExceeded:
    detail = f"the inputs of all calls together may have {INPUTS_MAX_BYTES} bytes, and have more"
    return LimitExceeded(detail, limit="inputs", limit_bytes=INPUTS_MAX_BYTES)


def _answers_too_large() -> LimitExceeded:
    """Of those that are held at once: the ones to all examples, or a single one later."""
    detail = f"the answers that are held at once may have {ANSWER_MAX_BYTES} bytes, and have more"
    return LimitExceeded(detail, limit="answer", limit_bytes=ANSWER_MAX_BYTES)


def _answer(returns: Structure, outputs: Sequence[TensorSpec], body: bytearray) -> Answer:
    tensors = _split(list(tensors_of(returns)), outputs, body)
    leaves: Mapping[str, Tensor] = {tensor.name: tensor for tensor in tensors}
    return Answer(returns, leaves)


def _split(names: Sequence[str], specs: Sequence[TensorSpec], body: bytearray) -> list[Tensor]:
    """The tensors of these names, each once, whose bytes are all that came."""
    if len(set(names)) < len(names) or sorted(names) != sorted(spec.name for spec in specs):
        raise MalformedFrame("the tensors are other ones than those that it nests")
    if sum(spec.byte_size for spec in specs) != len(body):
        raise MalformedFrame("the bytes that came are not those of the tensors")
    return split(specs, body)
