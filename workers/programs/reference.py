"""The reference, a child program: the eager model once more, apart from everything that was made of it.

It has the submission alone, and answers what it is asked on one live module, one call after the other. Whatever it is
asked on, it is asked for the first time: what is drawn freshly, nobody in here could have known.

In mode eager there is nothing but this: it runs the request's calls, and is asked nothing.
"""

import time
from collections.abc import Sequence
from typing import Any

import torch

from service.protocol.bounds import ANSWER_MAX_BYTES, INPUTS_MAX_BYTES
from service.protocol.messages import EXAMPLE, FailureReply, RefusalReply
from service.protocol.reference import AnswerReply, Ask, CallReply, Differentiate, GradientReply, to_reference
from service.protocol.tracer import Trace
from service.sandbox.channel import Channel, ChannelClosed
from tracehouse.check.calls import Answer, call_model, differentiate_model
from tracehouse.check.time_limit import TooSlow
from tracehouse.eager import jit_switch, observed_contract
from tracehouse.eager.call import Call, CheckCall
from tracehouse.eager.error_translation import translate_errors
from tracehouse.eager.submission import Submission
from tracehouse.errors import AnswerTooLarge, LimitExceeded, ModelRaised, OutputWithoutValues, ServiceError, TraceError
from tracehouse.introspection import tracebacks
from tracehouse.tensors.tensor import Tensor, split
from tracehouse.torch_values import structure
from tracehouse.torch_values.tensors import datatype_of, pack, unpack
from workers.programs.last_word import error_of
from workers.programs.request import submission_of


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    request = Trace.model_validate(header)
    torch.set_num_threads(request.threads)
    eager = request.spec.mode == "eager"
    if eager:
        jit_switch.turn_off()
    try:
        reference = Reference(channel, submission_of(request, files))
        if eager:
            reference.run(request.spec.options.seed)
            return
        reference.bind(request.spec.options.seed)
        while True:
            reference.answer()
    except ChannelClosed:
        return  # it was asked all that there was to ask
    except BaseException as error:  # noqa: BLE001 - submitted code: anything may come out, and is then data
        if eager and error.__cause__ is not None:
            tracebacks.print_traceback(error.__cause__)
        channel.send(FailureReply.of(error_of(error)).model_dump(mode="json"))


class Reference:
    """One submission, loaded."""

    def __init__(self, channel: Channel, submission: Submission) -> None:
        self._channel = channel
        self._device = submission.device
        loaded = submission.load()
        self._module = loaded.model.module
        examples = [CheckCall(EXAMPLE, call) for call in loaded.calls.values()]
        self._cases = {(one.name, one.call.method): one.call for one in [*examples, *loaded.check_calls]}

    def bind(self, seed: int) -> None:
        """Say every call's inputs, and what the examples are answered with."""
        self._refuse_too_large()
        for (case, method), call in self._cases.items():
            self._say_bound(case, method, call)
            if case == EXAMPLE:
                self._answer(call, seed, within_s=None)

    def run(self, seed: int) -> None:
        """Say every call's inputs and what it returns, up to the first that raises. Raises ModelRaised."""
        self._refuse_too_large()
        for (case, method), call in self._cases.items():
            self._say_bound(case, method, call)
            began = time.monotonic()
            answer = call_model(self._module, call, seed, within_s=None)
            observed_contract.check_eager_outputs(answer.outputs, method=method)
            self._say(answer, _outputs(call, answer, OutputWithoutValues), time.monotonic() - began)

    def _refuse_too_large(self) -> None:
        byte_size = sum(tensor.nbytes for call in self._cases.values() for tensor in call.tensors.values())
        if byte_size > INPUTS_MAX_BYTES:
            raise LimitExceeded(
                f"the inputs have {byte_size} bytes, and all of them together may have {INPUTS_MAX_BYTES}",
                limit="inputs", limit_bytes=INPUTS_MAX_BYTES,
            )  # fmt: skip

    def _say_bound(self, case: str, method: str, call: Call) -> None:
        inputs = pack(call.tensors)
        specs = [tensor.spec for tensor in inputs]
        bound = CallReply(case=case, method=method, arguments=observed_contract.describe_arguments(call), inputs=specs)
        self._channel.send(bound.model_dump(mode="json"), *(tensor.data for tensor in inputs))

    def answer(self) -> None:
        """Wait to be asked, and answer."""
        header, body = self._channel.receive()
        asked = to_reference.validate_python(header)
        call = self._cases[asked.case, asked.method].with_tensors(unpack(split(asked.inputs, body), self._device))
        match asked:
            case Ask():
                self._answer(call, asked.seed, asked.within_s)
            case Differentiate():
                self._differentiate(call, asked)

    def _answer(self, call: Call, seed: int, within_s: float | None) -> None:
        began = time.monotonic()
        try:
            answer = call_model(self._module, call, seed, within_s=within_s)
            outputs = _outputs(call, answer, ModelRaised)
        except ModelRaised as error:
            self._refuse(error)
        except TooSlow:
            self._refuse(_too_slow(call, within_s))
        except LimitExceeded as error:
            if within_s is None:
                raise
            self._refuse(error)  # of inputs that nobody submitted
        else:
            self._say(answer, outputs, time.monotonic() - began)

    def _differentiate(self, call: Call, asked: Differentiate) -> None:
        try:
            found = differentiate_model(
                self._module, call, asked.seed, within_s=asked.within_s, most_bytes=asked.answer_max_bytes
            )
        except (ModelRaised, AnswerTooLarge) as error:
            self._refuse(error)
        except TooSlow:
            self._refuse(_too_slow(call, asked.within_s))
        else:
            said = GradientReply(tensors=[tensor.spec for tensor in found.tensors], without=found.without)
            self._channel.send(said.model_dump(mode="json"), *(tensor.data for tensor in found.tensors))

    def _refuse(self, error: ServiceError) -> None:
        self._channel.send(RefusalReply.of(error).model_dump(mode="json"))

    def _say(self, answer: Answer, outputs: Sequence[Tensor], seconds: float) -> None:
        answered = AnswerReply(
            outputs=[tensor.spec for tensor in outputs],
            returns=structure.describe(answer.outputs, "output"),
            drew=answer.drew,
            seconds=seconds,
        )
        self._channel.send(answered.model_dump(mode="json"), *(tensor.data for tensor in outputs))


def _too_slow(call: Call, within_s: float | None) -> ModelRaised:
    return ModelRaised(f"{call.method} took longer than {within_s:.3g} s", method=call.method)


def _outputs(call: Call, answer: Answer, without_values: type[TraceError]) -> list[Tensor]:
    """Raises ModelRaised where they cannot be said, as those of the example could, or else `without_values`."""
    named: dict[str, Any] = structure.tensors(answer.outputs, "output")
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
