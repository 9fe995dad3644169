"""The process with the artifact, loaded by the program that is going to serve it, as its parent sees it."""

from collections.abc import Mapping, Sequence

from service.protocol.bounds import ANSWER_MAX_BYTES
from service.protocol.calls import Call, MisfitAnswer, read_answer
from service.protocol.messages import FailureReply
from service.protocol.reference import GradientReply
from service.protocol.runner import Infer, Load, OutputReply, RunnerReady, from_runner
from service.sandbox.channel import MalformedFrame
from service.sandbox.child import Exit
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.structure import TupleNode
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.comparison import Answer
from tracehouse.errors import ArchiveUnusable, Failure, TraceError
from tracehouse.spec.trace_spec import DeviceName, ServedForm, TraceSpec
from tracehouse.tensors.tensor import Datatype, Tensor
from workers.limits import TraceLimits
from workers.processes.client import (
    GradientAnswer,
    ModelProcess,
    answers_too_large,
    last_line,
    parse_answer,
    parse_gradients,
)
from workers.processes.exits import explain_archive_exit, explain_unloadable

RUNNER = "workers.programs.runner"


class ArtifactProcess(ModelProcess):
    """The archive, loaded in the form that is going to be served, or as it was traced."""

    # The form that torch.jit makes of the archive before it answers.
    _form: ServedForm | None = None
    _may_be_in_train_mode = False
    _has_all_threads = False  # those of the eager model, too

    def start(self, spec: TraceSpec, device: DeviceName) -> None:
        """Load the archive in the form that is going to be served."""
        self._form = spec.options.served_form
        self._load(spec, device)

    def start_as_traced(self, spec: TraceSpec, device: DeviceName) -> None:
        """Load the archive as it was traced, ready for gradients where the request wants them compared."""
        self._load(spec, device, gradients=spec.check.gradients)

    @property
    def name(self) -> str:
        return "the artifact" if self._form is None else f"what torch.jit.{self._form} made of it"

    def start_replaying(self, spec: TraceSpec, device: DeviceName, contract: Contract, tolerance: float | None) -> None:
        """Load the form that is going to be served, and replay the golden cases that the process was forked with, as
        will happen wherever the artifact is loaded from now on."""
        self._form = spec.options.served_form
        self._may_be_in_train_mode = spec.training is not False
        load = Load(
            contract=contract,
            device=device,
            served_form=self._form,
            gradients=False,
            tolerance=tolerance,
            threads=self._limits.threads,
        )
        self._send(load)

    def start_with(self, load: Load) -> None:
        """Load the archive as the message says."""
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
            threads=self._limits.threads_per_process,
        )
        self._send(load)

    def wait(self) -> None:
        """Wait until the archive is loaded. Raises ArchiveUnusable."""
        with self._translate_errors():
            match self._hear():
                case RunnerReady(), _:
                    return
                case FailureReply() as message, _:
                    raise self._name_form(
                        explain_unloadable(message.failure, may_be_in_train_mode=self._may_be_in_train_mode)
                    )
            raise MalformedFrame("it answered before it was asked")

    def ask(self, call: BoundCall, inputs: Sequence[Tensor], *, seed: int) -> None:
        """Ask for the same call on other inputs, which nest as the call's do. `seed` seeds torch's generators."""
        threads = self._limits.threads_per_process if self._has_all_threads else None
        self._has_all_threads = False
        self._ask(call, inputs, seed, threads)

    def ask_alone(self, call: BoundCall, inputs: Sequence[Tensor], *, seed: int) -> None:
        """Ask while the eager model has nothing to answer: this process has the threads of both."""
        self._has_all_threads = True
        self._ask(call, inputs, seed, self._limits.threads)

    def ask_with(self, call: BoundCall, inputs: Sequence[Tensor], *, seed: int, threads: int) -> None:
        """Ask for the call with so many threads, which compute from then on."""
        self._ask(call, inputs, seed, threads)

    def _ask(self, call: BoundCall, inputs: Sequence[Tensor], seed: int, threads: int | None) -> None:
        ask = Infer(
            method=call.method,
            inputs=[tensor.spec for tensor in inputs],
            answer_max_bytes=ANSWER_MAX_BYTES,
            arguments=call.arguments,
            returns=call.returns,
            seed=seed,
            threads=threads,
        )
        self._send(ask, inputs)

    def answer(self) -> Answer | str:
        """Return what the artifact returned, or the text of what it raised."""
        with self._translate_errors():
            message, body = self._hear()
            match message:
                case OutputReply() if message.returns is not None:
                    return parse_answer(message.returns, message.outputs, body, drew=message.drew)
                case FailureReply():
                    return last_line(message.failure)
            raise MalformedFrame(f"{message.kind} came for an answer")

    def serve(self, call: Call, expected: Mapping[str, Datatype]) -> None:
        """Have a call answered with these outputs, as it is where the artifact is served, and drop the answer."""
        with self._translate_errors():
            body = (tensor.data for tensor in call.inputs)
            self._child.channel.send(call.header(), *body, until=self._until)
            header, size = self._child.channel.receive_header(self._until)
            if size > ANSWER_MAX_BYTES:
                raise answers_too_large()
            answer = self._child.channel.receive_body(self._until)
            try:
                read_answer(header, answer, expected)
            except MisfitAnswer as error:
                raise MalformedFrame(str(error)) from error

    def gradients(self) -> GradientAnswer | Failure:
        """Return the gradients, or the failure: what the artifact raised, or that they would be too large."""
        with self._translate_errors():
            message, body = self._hear()
            match message:
                case GradientReply():
                    return parse_gradients(message, body)
                case FailureReply():
                    return message.failure
            raise MalformedFrame(f"{message.kind} came for gradients")

    def _explain_exit(self, end: Exit, limits: TraceLimits) -> TraceError:
        return self._name_form(explain_archive_exit(end, limits))

    def _name_form(self, error: TraceError) -> TraceError:
        """Add the form that was asked for to the error: without it the archive may be sound."""
        if self._form is not None and isinstance(error, ArchiveUnusable) and "remedy" not in error.facts:
            remedy = f"leave out options.{self._form}: the artifact is served as it was traced then"
            error.facts = {**error.facts, "form": self._form, "remedy": remedy}
        return error

    def _hear(self) -> tuple[RunnerReady | OutputReply | GradientReply | FailureReply, bytearray]:
        header, size = self._child.channel.receive_header(self._until)
        if size > ANSWER_MAX_BYTES:
            raise answers_too_large()
        return from_runner.validate_python(header), self._child.channel.receive_body(self._until)
