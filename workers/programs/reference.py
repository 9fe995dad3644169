"""The reference, a child program: the eager model, in a process that never sees the artifact.

It loads the submission and answers its parent's calls one after the other, on one live module. The parent draws inputs
after the artifact is made, so submitted code cannot know them beforehand.

In mode eager this is the only program: it runs the request's calls and receives no others.
"""

import time
from collections.abc import Sequence

import torch

from service.protocol.bounds import ANSWER_MAX_BYTES, INPUTS_MAX_BYTES
from service.protocol.messages import FailureReply, RefusalReply
from service.protocol.reference import AnswerReply, Ask, CallReply, Differentiate, GradientReply, to_reference
from service.protocol.tracer import Trace
from service.sandbox.channel import Channel, ChannelClosed
from tracehouse.check.calls import CallResult, call_model, differentiate_model
from tracehouse.check.float64_model import Float64Model
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.case_names import EXAMPLE
from tracehouse.eager import fast_paths, jit_switch, observed_contract
from tracehouse.eager.call import Call, CheckCall
from tracehouse.eager.error_translation import translate_errors
from tracehouse.eager.submission import SubmissionLoader
from tracehouse.errors import AnswerTooLarge, LimitExceeded, ModelRaised, OutputWithoutValues, TraceError
from tracehouse.introspection import tracebacks
from tracehouse.tensors.tensor import Tensor, split
from tracehouse.torch_values import returned, structure
from tracehouse.torch_values.tensors import datatype_of, pack, unpack
from workers.programs.program_error import to_service_error
from workers.programs.request import make_submission

_Reply = tuple[AnswerReply | GradientReply | RefusalReply, Sequence[Tensor]]  # the header, and its tensors


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    request = Trace.model_validate(header)
    torch.set_num_threads(request.threads)
    eager = request.spec.mode == "eager"
    if eager:
        jit_switch.turn_off()
    try:
        reference = Reference(channel, make_submission(request, files), is_traced=request.conversion.mode == "trace")
        if eager:
            reference.run(request.spec.options.seed)
            return
        reference.bind(request.spec.options.call_seed)
        while True:
            reference.answer()
    except ChannelClosed:
        return  # the parent has no more calls
    except BaseException as error:  # noqa: BLE001 - submitted code: anything may come out, and is then data
        if eager and error.__cause__ is not None:
            tracebacks.print_traceback(error.__cause__)
        channel.send(FailureReply.of(to_service_error(error)).model_dump(mode="json"))


class Reference:
    """A loaded submission that answers calls. `is_traced` says whether it is compared with a trace."""

    def __init__(self, channel: Channel, submission: SubmissionLoader, *, is_traced: bool = True) -> None:
        self._channel = channel
        self._is_traced = is_traced
        self._without_fast_paths = False
        self._device = submission.device
        loaded = submission.load()
        self._module = loaded.model.module
        self._float64 = Float64Model(self._module)
        examples = [CheckCall(EXAMPLE, call) for call in loaded.calls.values()]
        self._cases = {(one.name, one.call.method): one.call for one in [*examples, *loaded.check_calls]}

    def bind(self, seed: int) -> None:
        """Send every call's inputs, and the outputs of the examples. Raises LimitExceeded.

        If the values of a padding mask choose a path that a trace would keep, fast paths are off from here on.
        """
        self._refuse_too_large()
        with fast_paths.record_masks() as masks:
            replies = self._answer_examples(seed)
        if masks and self._is_traced:
            fast_paths.turn_off()
            self._without_fast_paths = True
            replies = self._answer_examples(seed)
        for (case, method), call in self._cases.items():
            self._send_call(case, method, call)
            if case == EXAMPLE:
                self._send(replies.pop(method))

    def _answer_examples(self, seed: int) -> dict[str, _Reply]:
        return {
            method: self._answer(call, seed, within_s=None)
            for (case, method), call in self._cases.items()
            if case == EXAMPLE
        }

    def run(self, seed: int) -> None:
        """Send every call's inputs and outputs, up to the first that raises. Raises ModelRaised and LimitExceeded."""
        self._refuse_too_large()
        for (case, method), call in self._cases.items():
            self._send_call(case, method, call)
            began = time.monotonic()
            answer = call_model(self._module, call, seed, within_s=None)
            observed_contract.check_eager_outputs(answer.outputs, method=method)
            self._send(_reply_of(answer, _pack_outputs(call, answer, OutputWithoutValues), time.monotonic() - began))

    def _refuse_too_large(self) -> None:
        byte_size = sum(call.byte_size for call in self._cases.values())
        if byte_size > INPUTS_MAX_BYTES:
            raise LimitExceeded(
                f"the inputs have {byte_size} bytes, and all of them together may have {INPUTS_MAX_BYTES}",
                limit="inputs", limit_bytes=INPUTS_MAX_BYTES,
            )  # fmt: skip

    def _send_call(self, case: str, method: str, call: Call) -> None:
        inputs = pack(call.tensors)
        specs = [tensor.spec for tensor in inputs]
        reply = CallReply(
            case=case,
            method=method,
            arguments=observed_contract.describe_arguments(call),
            keywords=list(call.keywords),
            inputs=specs,
            without_fast_paths=self._without_fast_paths,
        )
        self._channel.send(reply.model_dump(mode="json"), *(tensor.data for tensor in inputs))

    def answer(self) -> None:
        """Wait for a request, and answer it. Raises ChannelClosed when the parent has no more."""
        header, body = self._channel.receive()
        request = to_reference.validate_python(header)
        call = self._cases[request.case, request.method].with_tensors(unpack(split(request.inputs, body), self._device))
        match request:
            case Ask():
                asked = call if request.key_order is None else call.with_key_order(request.key_order)
                self._send(self._answer(asked, request.seed, request.within_s, float64=request.float64))
            case Differentiate():
                self._differentiate(call, request)

    def _answer(self, call: Call, seed: int, within_s: float | None, *, float64: bool = False) -> _Reply:
        began = time.monotonic()
        try:
            if float64:
                answer = self._float64.answer(call, seed, within_s=within_s)
            else:
                answer = call_model(self._module, call, seed, within_s=within_s)
            outputs = _pack_outputs(call, answer, ModelRaised)
        except ModelRaised as error:
            return RefusalReply.of(error), []
        except TooSlow:
            return RefusalReply.of(_make_slow_error(call, within_s)), []
        except LimitExceeded as error:
            if within_s is None:
                raise
            return RefusalReply.of(error), []  # nobody submitted these inputs, so the request does not fail by them
        return _reply_of(answer, outputs, time.monotonic() - began)

    def _differentiate(self, call: Call, request: Differentiate) -> None:
        try:
            gradients = differentiate_model(
                self._module, call, request.seed, within_s=request.within_s, most_bytes=request.answer_max_bytes
            )
        except (ModelRaised, AnswerTooLarge) as error:
            self._send((RefusalReply.of(error), []))
        except TooSlow:
            self._send((RefusalReply.of(_make_slow_error(call, request.within_s)), []))
        else:
            reply = GradientReply(tensors=[tensor.spec for tensor in gradients.tensors], without=gradients.without)
            self._send((reply, gradients.tensors))

    def _send(self, reply: _Reply) -> None:
        header, tensors = reply
        self._channel.send(header.model_dump(mode="json"), *(tensor.data for tensor in tensors))


def _reply_of(answer: CallResult, outputs: Sequence[Tensor], seconds: float) -> _Reply:
    header = AnswerReply(
        outputs=[tensor.spec for tensor in outputs],
        returns=structure.describe(answer.outputs, "output"),
        drew=answer.drew,
        drew_in_python=answer.drew_in_python,
        seconds=seconds,
    )
    return header, outputs


def _make_slow_error(call: Call, within_s: float | None) -> ModelRaised:
    return ModelRaised(f"{call.method} took longer than {within_s:.3g} s", method=call.method)


def _pack_outputs(call: Call, answer: CallResult, without_values: type[TraceError]) -> list[Tensor]:
    """Return the outputs as bytes.

    Raises ModelRaised for an output that has no datatype, `without_values` if an output's values cannot be read, and
    LimitExceeded.
    """
    named = returned.tensors(answer.outputs)
    for name, tensor in named.items():
        if datatype_of(tensor) is None:
            raise ModelRaised(f"{call.method} returned {name!r} as {tensor.dtype}, which has no datatype")
    outputs: list[Tensor] = []
    for name, tensor in named.items():
        with translate_errors(
            without_values, f"to read the values of {name!r} raised", method=call.method, output=name
        ):
            outputs += pack({name: tensor})
    byte_size = sum(len(tensor.data) for tensor in outputs)
    if byte_size > ANSWER_MAX_BYTES:
        raise LimitExceeded(
            f"{call.method} returned {byte_size} bytes, and may return {ANSWER_MAX_BYTES}",
            limit="answer", limit_bytes=ANSWER_MAX_BYTES,
        )  # fmt: skip
    return outputs
