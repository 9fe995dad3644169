"""The reference, a child program: the eager model once more, apart from everything that was made of it.

It has the submission alone, and answers what it is asked on one live module, one call after the other. Whatever it is
asked on, it is asked for the first time: what is drawn freshly, nobody in here could have known.
"""

import time
from collections.abc import Sequence
from typing import Any

import torch

from service.domain.errors import LimitExceeded, ModelRaised, ServiceError
from service.domain.tensor import Tensor, split
from service.sandbox.bounds import ANSWER_MAX_BYTES, INPUTS_MAX_BYTES
from service.sandbox.channel import Channel, ChannelClosed
from service.sandbox.messages import EXAMPLE, Answered, Ask, Bound, Failed, Refused, Trace
from workers import structure
from workers.tensors import datatype_of, packed, unpacked
from workers.tracing import contract
from workers.tracing.blame import error_of
from workers.tracing.call import Call, CheckCall
from workers.tracing.checks.eager import Answer, TooSlow, live_answer
from workers.tracing.submission import Submission


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    request = Trace.model_validate(header)
    torch.set_num_threads(request.threads)
    try:
        reference = Reference(channel, Submission(request, files))
        reference.bind(request.spec.options.seed)
        while True:
            reference.answer()
    except ChannelClosed:
        return  # it was asked all that there was to ask
    except BaseException as error:  # noqa: BLE001 - submitted code: anything may come out, and is then data
        channel.send(Failed.of(error_of(error)).model_dump(mode="json"))


class Reference:
    """One submission, loaded."""

    def __init__(self, channel: Channel, submission: Submission) -> None:
        self._channel = channel
        loaded = submission.load()
        self._module = loaded.model.module
        examples = [CheckCall(EXAMPLE, call) for call in loaded.calls.values()]
        self._cases = {(one.name, one.call.method): one.call for one in [*examples, *loaded.check_calls]}

    def bind(self, seed: int) -> None:
        """Say every call's inputs, and what the examples are answered with."""
        byte_size = sum(tensor.nbytes for call in self._cases.values() for tensor in call.tensors.values())
        if byte_size > INPUTS_MAX_BYTES:
            raise LimitExceeded(
                f"the inputs have {byte_size} bytes, and all of them together may have {INPUTS_MAX_BYTES}",
                limit="inputs", limit_bytes=INPUTS_MAX_BYTES,
            )  # fmt: skip
        for (case, method), call in self._cases.items():
            inputs = packed(call.tensors)
            specs = [tensor.spec for tensor in inputs]
            bound = Bound(case=case, method=method, arguments=contract.arguments(call), inputs=specs)
            self._channel.send(bound.model_dump(mode="json"), *(tensor.data for tensor in inputs))
            if case == EXAMPLE:
                self._answer(call, seed, within_s=None)

    def answer(self) -> None:
        """Wait to be asked, and answer."""
        header, body = self._channel.receive()
        asked = Ask.model_validate(header)
        call = self._cases[asked.case, asked.method].with_tensors(unpacked(split(asked.inputs, body)))
        self._answer(call, asked.seed, asked.within_s)

    def _answer(self, call: Call, seed: int, within_s: float | None) -> None:
        began = time.monotonic()
        try:
            answer = live_answer(self._module, call, seed, within_s=within_s)
            outputs = _outputs(call, answer)
        except ModelRaised as error:
            self._refuse(error)
        except TooSlow:
            self._refuse(ModelRaised(f"{call.method} took longer than {within_s:.3g} s", method=call.method))
        else:
            self._say(answer, outputs, time.monotonic() - began)

    def _refuse(self, error: ServiceError) -> None:
        self._channel.send(Refused.of(error).model_dump(mode="json"))

    def _say(self, answer: Answer, outputs: Sequence[Tensor], seconds: float) -> None:
        answered = Answered(
            outputs=[tensor.spec for tensor in outputs],
            returns=structure.describe(answer.outputs, "output"),
            drew=answer.drew,
            seconds=seconds,
        )
        self._channel.send(answered.model_dump(mode="json"), *(tensor.data for tensor in outputs))


def _outputs(call: Call, answer: Answer) -> list[Tensor]:
    """Raises ModelRaised where they cannot be said, as those of the example could."""
    named: dict[str, Any] = structure.tensors(answer.outputs, "output")
    for name, tensor in named.items():
        if datatype_of(tensor) is None:
            raise ModelRaised(f"{call.method} returned {name!r} as {tensor.dtype}, which has no datatype")
    outputs = packed(named)
    byte_size = sum(len(tensor.data) for tensor in outputs)
    if byte_size > ANSWER_MAX_BYTES:
        raise LimitExceeded(
            f"{call.method} returned {byte_size} bytes, and may return {ANSWER_MAX_BYTES}",
            limit="answer", limit_bytes=ANSWER_MAX_BYTES,
        )  # fmt: skip
    return outputs
