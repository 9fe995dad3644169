"""The two sides of a verification as the worker sees them: a process with the eager model, one with the artifact.

What they say is parsed and bounded here, and never a reason to look into what was submitted or made.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from service.protocol.bounds import ANSWER_MAX_BYTES, INPUTS_MAX_BYTES
from service.protocol.messages import EXAMPLE, Failed, Refused
from service.protocol.reference import Answered, Ask, Bound, Differentiate, Differentiated, from_reference
from service.protocol.runner import Infer, Inferred, Load, Ready, from_runner
from service.protocol.tracer import Trace
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import MalformedFrame
from service.sandbox.child import Child, Exit
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.structure import Structure, TupleNode, tensors_of
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.comparison import Answer
from tracehouse.errors import ArchiveUnusable, Failure, LimitExceeded, TraceError
from tracehouse.spec.trace_spec import DeviceName, ServedForm, TraceSpec
from tracehouse.tensors.tensor import Tensor, TensorSpec, split
from workers.limits import TraceLimits
from workers.printed_log import PrintedLog
from workers.processes.exits import malformed, of_archive, of_model, talking, told

REFERENCE = "workers.programs.reference"
RUNNER = "workers.programs.runner"


@dataclass(frozen=True)
class EagerAnswer:
    answer: Answer
    drew: bool
    seconds: float

    @property
    def byte_size(self) -> int:
        return sum(len(leaf.data) for leaf in self.answer.leaves.values())


@dataclass(frozen=True)
class Gradients:
    """What a call returned and the gradients, by their names; `without` could have one, and have none."""

    tensors: Mapping[str, Tensor]
    without: Sequence[str]


class _Side(ABC):
    """A process, which is sent messages and heard until the attempt's time is over."""

    def __init__(self, child: Child, limits: TraceLimits, cancellation: Cancellation, until: float) -> None:
        self._child = child
        self._limits = limits
        self._cancellation = cancellation
        self._until = until

    def kill(self) -> None:
        self._child.kill()

    def ask_gradients(
        self, call: BoundCall, inputs: Sequence[Tensor], *, seed: int, within_s: float | None = None
    ) -> None:
        """As `ask`, and for the way back from what it returns, which is weighted by numbers drawn from the seed."""
        ask = Differentiate(
            case=call.case,
            method=call.method,
            arguments=call.arguments,
            inputs=[tensor.spec for tensor in inputs],
            seed=seed,
            within_s=within_s,
            answer_max_bytes=ANSWER_MAX_BYTES,
        )
        self._send(ask, inputs)

    def _send(self, message: Trace | Load | Ask | Infer | Differentiate, tensors: Sequence[Tensor] = ()) -> None:
        with self._talking():
            header = message.model_dump(mode="json")
            self._child.channel.send(header, *(tensor.data for tensor in tensors), until=self._until)

    def _talking(self) -> AbstractContextManager[None]:
        return talking(self._child, self._limits, self._cancellation, self._blame)

    @abstractmethod
    def _blame(self, end: Exit, limits: TraceLimits) -> TraceError:
        """Why it went without a last word."""


class EagerProcess(_Side):
    """The reference. `start` it, hear its `calls`, then ask: an answer, or the failure with which it refuses.

    What is `printed` meanwhile goes on its way while it is waited for.
    """

    def __init__(
        self,
        child: Child,
        limits: TraceLimits,
        cancellation: Cancellation,
        until: float,
        printed: PrintedLog | None = None,
    ) -> None:
        super().__init__(child, limits, cancellation, until)
        self._printed = printed

    def start(self, request: Trace) -> None:
        self._send(request)

    def calls(self, spec: TraceSpec) -> tuple[list[BoundCall], dict[str, EagerAnswer | Failure]]:
        """Every call of the request's in its order, and the answers to the examples by their methods."""
        calls: list[BoundCall] = []
        answers: dict[str, EagerAnswer | Failure] = {}
        left_answer_bytes = ANSWER_MAX_BYTES
        for call in self._bound(spec):
            calls.append(call)
            if call.case == EXAMPLE:
                answers[call.method] = answer = self.answer(left_answer_bytes)
                left_answer_bytes -= answer.byte_size if isinstance(answer, EagerAnswer) else 0
        return calls, answers

    def runs(self, spec: TraceSpec) -> Iterator[tuple[BoundCall, EagerAnswer]]:
        """In mode eager, in place of `calls`: every call of the request's with its answer, the check inputs' too."""
        left_answer_bytes = ANSWER_MAX_BYTES
        for call in self._bound(spec):
            answer = self.answer(left_answer_bytes)
            if isinstance(answer, Failure):
                raise malformed("it refused a call, and was asked none")
            left_answer_bytes -= answer.byte_size
            yield call, answer

    def ask(self, call: BoundCall, inputs: Sequence[Tensor], *, seed: int, within_s: float | None) -> None:
        """Call it as in that call, but on these inputs."""
        specs = [tensor.spec for tensor in inputs]
        self._send(Ask(case=call.case, method=call.method, inputs=specs, seed=seed, within_s=within_s), inputs)

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

    def gradients(self) -> Gradients | Failure:
        with self._talking():
            message, body = self._hear(ANSWER_MAX_BYTES, _answers_too_large)
            match message:
                case Differentiated():
                    return _gradients(message, body)
                case Refused():
                    return message.failure
            raise MalformedFrame(f"{message.kind} came for gradients")

    def _blame(self, end: Exit, limits: TraceLimits) -> TraceError:
        return of_model(end, limits)

    def _bound(self, spec: TraceSpec) -> Iterator[BoundCall]:
        left_bytes = INPUTS_MAX_BYTES
        for case, method in _cases(spec):
            call = self._call(case, method, left_bytes)
            left_bytes -= sum(len(tensor.data) for tensor in call.inputs)
            yield call

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
    ) -> tuple[Bound | Answered | Differentiated | Refused, bytearray]:
        if self._printed is not None:
            self._printed.flush_until_ready(self._child.channel, self._until)
        header, size = self._child.channel.receive_header(self._until)
        if size > most_bytes:
            raise too_large()
        message = from_reference.validate_python(header)
        body = self._child.channel.receive_body(self._until)
        if isinstance(message, Failed):
            raise told(message.failure, self._child, program=REFERENCE)
        return message, body


class ArtifactProcess(_Side):
    """The archive, loaded by what is going to serve it: in the form that is going to be served, or as it was traced."""

    # Which of torch.jit's forms was made of it.
    _form: ServedForm | None = None

    def start(self, spec: TraceSpec, device: DeviceName) -> None:
        """In the form that is going to be served."""
        self._form = spec.options.served_form
        self._load(spec, device)

    def start_as_traced(self, spec: TraceSpec, device: DeviceName) -> None:
        """To be asked for gradients too, where the request wants them compared."""
        self._load(spec, device, gradients=spec.check.gradients)

    @property
    def name(self) -> str:
        return "the artifact" if self._form is None else f"what torch.jit.{self._form} made of it"

    def start_replaying(self, spec: TraceSpec, device: DeviceName, contract: Contract, tolerance: float | None) -> None:
        """Of the form that is going to be served, on the golden cases that it was forked with: as wherever it is
        loaded from now on."""
        self._form = spec.options.served_form
        load = Load(
            contract=contract,
            device=device,
            served_form=self._form,
            gradients=False,
            tolerance=tolerance,
            threads=self._limits.threads,
        )
        self._send(load)

    def _load(self, spec: TraceSpec, device: DeviceName, *, gradients: bool = False) -> None:
        # Its contract is not known yet, but for the methods that it must have.
        empty = MethodContract(arguments=[], inputs=[], outputs=[], returns=TupleNode(tuple=[]))
        load = Load(
            contract=Contract(methods=dict.fromkeys(spec.calls, empty)),
            device=device,
            served_form=self._form,
            gradients=gradients,
            tolerance=None,
            threads=self._limits.threads_per_side,
        )
        self._send(load)

    def wait(self) -> None:
        """Until it is loaded. Raises ArchiveUnusable."""
        with self._talking():
            match self._hear():
                case Ready(), _:
                    return
                case Failed() as message, _:
                    raise self._of_form(ArchiveUnusable(message.failure.detail))
            raise MalformedFrame("it answered before it was asked")

    def ask(self, call: BoundCall, inputs: Sequence[Tensor]) -> None:
        """Call it with inputs that nest as in that call."""
        ask = Infer(
            method=call.method,
            inputs=[tensor.spec for tensor in inputs],
            answer_max_bytes=ANSWER_MAX_BYTES,
            arguments=call.arguments,
        )
        self._send(ask, inputs)

    def answer(self) -> Answer | str:
        """What it returned, or what it raised."""
        with self._talking():
            message, body = self._hear()
            match message:
                case Inferred() if message.returns is not None:
                    return _answer(message.returns, message.outputs, body)
                case Failed():
                    return what_happened(message.failure)
            raise MalformedFrame(f"{message.kind} came for an answer")

    def gradients(self) -> Gradients | Failure:
        """The failure is what it raised, or that there would be too many."""
        with self._talking():
            message, body = self._hear()
            match message:
                case Differentiated():
                    return _gradients(message, body)
                case Failed():
                    return message.failure
            raise MalformedFrame(f"{message.kind} came for gradients")

    def _blame(self, end: Exit, limits: TraceLimits) -> TraceError:
        return self._of_form(of_archive(end, limits))

    def _of_form(self, error: TraceError) -> TraceError:
        """Said of the form that was asked for: the archive may be sound without it."""
        if self._form is not None and isinstance(error, ArchiveUnusable):
            remedy = f"leave out options.{self._form}: the artifact is served as it was traced then"
            error.facts = {**error.facts, "form": self._form, "remedy": remedy}
        return error

    def _hear(self) -> tuple[Ready | Inferred | Differentiated | Failed, bytearray]:
        header, size = self._child.channel.receive_header(self._until)
        if size > ANSWER_MAX_BYTES:
            raise _answers_too_large()
        return from_runner.validate_python(header), self._child.channel.receive_body(self._until)


def what_happened(failure: Failure) -> str:
    """torch puts it at the end, after the lines of the graph."""
    lines = failure.detail.strip().splitlines()
    return lines[-1] if lines else failure.slug


def _cases(spec: TraceSpec) -> list[tuple[str, str]]:
    """Every call of the request's, by its case and its method."""
    examples = [(EXAMPLE, method) for method in spec.calls]
    return examples + [(f"check_inputs[{index}]", one.method) for index, one in enumerate(spec.check.check_inputs)]


def _inputs_too_large() -> LimitExceeded:
    detail = f"the inputs of all calls together may have {INPUTS_MAX_BYTES} bytes, and have more"
    return LimitExceeded(detail, limit="inputs", limit_bytes=INPUTS_MAX_BYTES)


def _answers_too_large() -> LimitExceeded:
    """Of those that are held at once: the ones to all examples, or a single one later."""
    detail = f"the answers that are held at once may have {ANSWER_MAX_BYTES} bytes, and have more"
    return LimitExceeded(detail, limit="answer", limit_bytes=ANSWER_MAX_BYTES)


def _gradients(message: Differentiated, body: bytearray) -> Gradients:
    named = [spec.name for spec in message.tensors]
    if {*named} & {*message.without}:
        raise MalformedFrame("it has a gradient, and has none")
    return Gradients({tensor.name: tensor for tensor in _split(named, message.tensors, body)}, message.without)


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
