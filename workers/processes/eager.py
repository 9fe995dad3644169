"""The process with the eager model, which an artifact is compared with, as its parent sees it."""

from collections.abc import Callable, Iterator, Sequence

from service.protocol.bounds import ANSWER_MAX_BYTES, INPUTS_MAX_BYTES
from service.protocol.messages import FailureReply, RefusalReply
from service.protocol.reference import AnswerReply, Ask, CallReply, GradientReply, from_reference
from service.protocol.tracer import Trace
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import MalformedFrame
from service.sandbox.child import Child, Exit
from tracehouse.contract.key_orders import KeyOrder
from tracehouse.contract.structure import tensors_of
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.case_names import EXAMPLE, name_check_input, name_sample
from tracehouse.errors import Failure, LimitExceeded, TraceError
from tracehouse.spec.trace_spec import TraceSpec
from tracehouse.tensors.tensor import Tensor
from workers.limits import TraceLimits
from workers.printed_log import PrintedLog
from workers.processes.client import (
    EagerAnswer,
    GradientAnswer,
    ModelProcess,
    answers_too_large,
    parse_answer,
    parse_gradients,
    parse_tensors,
)
from workers.processes.exits import error_of_failure, explain_model_exit, malformed_message

REFERENCE = "workers.programs.reference"


class EagerProcess(ModelProcess):
    """The reference: `start` it, hear its `calls`, then ask; it gives an answer, or the failure with which it refuses.

    What the model prints goes to `printed_log` while the process is waited for. `without_fast_paths` is known with the
    first call.
    """

    def __init__(
        self,
        child: Child,
        limits: TraceLimits,
        cancellation: Cancellation,
        until: float,
        printed_log: PrintedLog | None = None,
    ) -> None:
        super().__init__(child, limits, cancellation, until)
        self._printed_log = printed_log
        self.without_fast_paths = False

    def start(self, request: Trace) -> None:
        self._send(request)

    def calls(self, spec: TraceSpec) -> tuple[list[BoundCall], dict[str, EagerAnswer | Failure]]:
        """Return the request's calls in their order, and the answers to the examples by their methods."""
        calls: list[BoundCall] = []
        answers: dict[str, EagerAnswer | Failure] = {}
        left_answer_bytes = ANSWER_MAX_BYTES
        for call in self._hear_calls(spec):
            calls.append(call)
            if call.case == EXAMPLE:
                answers[call.method] = answer = self.answer(left_answer_bytes)
                left_answer_bytes -= answer.byte_size if isinstance(answer, EagerAnswer) else 0
        return calls, answers

    def runs(self, spec: TraceSpec) -> Iterator[tuple[BoundCall, EagerAnswer]]:
        """Yield each of the request's calls with its answer, check inputs too: for mode eager, in place of `calls`."""
        left_answer_bytes = ANSWER_MAX_BYTES
        for call in self._hear_calls(spec):
            answer = self.answer(left_answer_bytes)
            if isinstance(answer, Failure):
                raise malformed_message("it refused a call, and was asked none")
            left_answer_bytes -= answer.byte_size
            yield call, answer

    def ask(
        self,
        call: BoundCall,
        inputs: Sequence[Tensor],
        *,
        seed: int,
        within_s: float | None,
        key_order: KeyOrder | None = None,
        float64: bool = False,
    ) -> None:
        """Ask for the same call on other inputs.

        With `key_order`, the keys of one dict come in another order; with `float64`, a copy of the model in float64
        answers.
        """
        specs = [tensor.spec for tensor in inputs]
        asked = Ask(
            case=call.case, method=call.method, inputs=specs, seed=seed, within_s=within_s, key_order=key_order,
            float64=float64,
        )  # fmt: skip
        self._send(asked, inputs)

    def answer(self, most_bytes: int = ANSWER_MAX_BYTES) -> EagerAnswer | Failure:
        with self._translate_errors():
            message, body = self._hear(most_bytes, answers_too_large)
            match message:
                case AnswerReply():
                    answer = parse_answer(message.returns, message.outputs, body)
                    return EagerAnswer(answer, message.drew, message.seconds, message.drew_in_python)
                case RefusalReply():
                    return message.failure
            raise MalformedFrame(f"{message.kind} came for an answer")

    def gradients(self) -> GradientAnswer | Failure:
        with self._translate_errors():
            message, body = self._hear(ANSWER_MAX_BYTES, answers_too_large)
            match message:
                case GradientReply():
                    return parse_gradients(message, body)
                case RefusalReply():
                    return message.failure
            raise MalformedFrame(f"{message.kind} came for gradients")

    def _explain_exit(self, end: Exit, limits: TraceLimits) -> TraceError:
        return explain_model_exit(end, limits)

    def _hear_calls(self, spec: TraceSpec) -> Iterator[BoundCall]:
        left_bytes = INPUTS_MAX_BYTES
        for case, method in _cases(spec):
            call = self._hear_call(case, method, left_bytes)
            left_bytes -= sum(len(tensor.data) for tensor in call.inputs)
            yield call

    def _hear_call(self, case: str, method: str, most_bytes: int) -> BoundCall:
        with self._translate_errors():
            message, body = self._hear(most_bytes, _inputs_too_large)
            if not isinstance(message, CallReply) or (message.case, message.method) != (case, method):
                raise MalformedFrame(f"{case} of {method} was to come")
            if len({argument.name for argument in message.arguments}) < len(message.arguments):
                raise MalformedFrame("two arguments have one name")
            if not {*message.keywords} <= {argument.name for argument in message.arguments}:
                raise MalformedFrame("a keyword is no argument")
            self.without_fast_paths = message.without_fast_paths
            names = [name for argument in message.arguments for name in tensors_of(argument.structure)]
            inputs = parse_tensors(names, message.inputs, body)
            return BoundCall(case, method, message.arguments, inputs, message.keywords)

    def _hear(
        self, most_bytes: int, too_large: Callable[[], LimitExceeded]
    ) -> tuple[CallReply | AnswerReply | GradientReply | RefusalReply, bytearray]:
        if self._printed_log is not None:
            self._printed_log.flush_until_ready(self._child.channel, self._until)
        header, size = self._child.channel.receive_header(self._until)
        if size > most_bytes:
            raise too_large()
        message = from_reference.validate_python(header)
        body = self._child.channel.receive_body(self._until)
        if isinstance(message, FailureReply):
            raise error_of_failure(message.failure, self._child, program=REFERENCE)
        return message, body


def _cases(spec: TraceSpec) -> list[tuple[str, str]]:
    """Return case and method of each of the request's calls."""
    examples = [(EXAMPLE, method) for method in spec.calls]
    further = [(name_check_input(index), one.method) for index, one in enumerate(spec.check.check_inputs)]
    samples = [(name_sample(place), file.method) for place, (file, _) in enumerate(spec.check.sample_places)]
    return [*examples, *further, *samples]


def _inputs_too_large() -> LimitExceeded:
    detail = f"the inputs of all calls together may have {INPUTS_MAX_BYTES} bytes, and have more"
    return LimitExceeded(detail, limit="inputs", limit_bytes=INPUTS_MAX_BYTES)
