"""The parent's side of the processes that a verification questions: messages out, answers in.

The eager model and the artifact each have a process of their own. What these send is parsed and bounded here; the
parent never looks into what was submitted or made.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from service.protocol.bounds import ANSWER_MAX_BYTES
from service.protocol.reference import Ask, Differentiate, GradientReply
from service.protocol.runner import Infer, Load
from service.protocol.tracer import Trace
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import MalformedFrame
from service.sandbox.child import Child, Exit
from service.sandbox.resident_memory import ResidentMemory
from tracehouse.contract.structure import Structure, tensors_of
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.comparison import Answer
from tracehouse.errors import Failure, LimitExceeded, TraceError
from tracehouse.tensors.tensor import Tensor, TensorSpec, split
from workers.limits import TraceLimits
from workers.processes.exits import translate_errors


@dataclass(frozen=True)
class EagerAnswer:
    """What the eager model returned, whether it drew random numbers, and how long the call took.

    `drew_in_python`: it drew some with Python's or NumPy's generator, which no trace records.
    """

    answer: Answer
    drew: bool
    seconds: float
    drew_in_python: bool = False

    @property
    def byte_size(self) -> int:
        return sum(len(leaf.data) for leaf in self.answer.leaves.values())


@dataclass(frozen=True)
class GradientAnswer:
    """A call's outputs and gradients by their names; `without` lists the tensors that got no gradient."""

    tensors: Mapping[str, Tensor]
    without: Sequence[str]


class ModelProcess(ABC):
    """A process with a model loaded. It is sent messages and answers until the attempt's time is over."""

    def __init__(self, child: Child, limits: TraceLimits, cancellation: Cancellation, until: float) -> None:
        self._child = child
        self._limits = limits
        self._cancellation = cancellation
        self._until = until
        self._memory = ResidentMemory(child.pid)

    @property
    def resident_bytes(self) -> int:
        """The memory that the process takes now, without pages that it shares; 0 if that is unknown."""
        return self._memory.read() or 0

    @property
    def processor_s(self) -> float:
        """The processor time that the process has used, in seconds."""
        return self._child.processor_s

    def kill(self) -> None:
        self._child.kill()

    def answer_until(self, until: float) -> None:
        """Give it until then for what it is asked next, whatever time it had before."""
        self._until = until

    def ask_gradients(
        self, call: BoundCall, inputs: Sequence[Tensor], *, seed: int, within_s: float | None = None
    ) -> None:
        """Ask for the call and its backward pass; the seed draws the weights of the outputs."""
        ask = Differentiate(
            case=call.case,
            method=call.method,
            arguments=call.arguments,
            returns=call.returns,
            inputs=[tensor.spec for tensor in inputs],
            seed=seed,
            within_s=within_s,
            answer_max_bytes=ANSWER_MAX_BYTES,
        )
        self._send(ask, inputs)

    def _send(self, message: Trace | Load | Ask | Infer | Differentiate, tensors: Sequence[Tensor] = ()) -> None:
        with self._translate_errors():
            header = message.header() if isinstance(message, Trace) else message.model_dump(mode="json")
            self._child.channel.send(header, *(tensor.data for tensor in tensors), until=self._until)

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_errors(self._child, self._limits, self._cancellation, self._explain_exit)

    @abstractmethod
    def _explain_exit(self, end: Exit, limits: TraceLimits) -> TraceError:
        """Return the error that says why the process ended without a last message."""


def last_line(failure: Failure) -> str:
    """Return the last line of a failure's text, where torch says what happened, after the lines of the graph."""
    lines = failure.detail.strip().splitlines()
    return lines[-1] if lines else failure.slug


def answers_too_large() -> LimitExceeded:
    """Return the error for answers too large to be held at once: those to all examples, or a single one later."""
    detail = f"the answers that are held at once may have {ANSWER_MAX_BYTES} bytes, and have more"
    return LimitExceeded(detail, limit="answer", limit_bytes=ANSWER_MAX_BYTES)


def parse_gradients(message: GradientReply, body: bytearray) -> GradientAnswer:
    """Raises MalformedFrame."""
    named = [spec.name for spec in message.tensors]
    if {*named} & {*message.without}:
        raise MalformedFrame("it has a gradient, and has none")
    return GradientAnswer(
        {tensor.name: tensor for tensor in parse_tensors(named, message.tensors, body)}, message.without
    )


def parse_answer(returns: Structure, outputs: Sequence[TensorSpec], body: bytearray, *, drew: bool = False) -> Answer:
    """Raises MalformedFrame."""
    tensors = parse_tensors(list(tensors_of(returns)), outputs, body)
    leaves: Mapping[str, Tensor] = {tensor.name: tensor for tensor in tensors}
    return Answer(returns, leaves, drew)


def parse_tensors(names: Sequence[str], specs: Sequence[TensorSpec], body: bytearray) -> list[Tensor]:
    """Return the tensors of these names, each once, whose bytes are the whole body. Raises MalformedFrame."""
    if len(set(names)) < len(names) or sorted(names) != sorted(spec.name for spec in specs):
        raise MalformedFrame("the tensors are other ones than those that it nests")
    if sum(spec.byte_size for spec in specs) != len(body):
        raise MalformedFrame("the bytes that came are not those of the tensors")
    return split(specs, body)
