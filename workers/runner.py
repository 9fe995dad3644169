"""The runner, a child program: loads one archive, proves it on its golden cases, and answers until its channel ends."""

import os
import resource
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch

from service.domain.contract import Contract
from service.domain.errors import AnswerTooLarge, GoldenCaseFailed, GraphRaised, RunnerLost, ServiceError
from service.domain.tensor import TensorSpec
from service.sandbox.channel import Channel, ChannelClosed
from service.sandbox.messages import Failed, Infer, Inferred, Load, Ready
from workers import golden, structure, tensors
from workers.compare import compare

_TEXT_MAX_CHARACTERS = 4000
# torch's profiling executor specialises on the second and third call: what answers from then on is proved as well.
_WARMING_CALLS = 3


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    load = Load.model_validate(header)
    torch.set_num_threads(load.threads)
    torch.seed()  # all runners would draw alike: they have the state of the process that they were forked from
    # torch.jit says at each call that it is deprecated: nobody here called it.
    warnings.filterwarnings("ignore", message=r"`torch\.jit\.", category=DeprecationWarning)
    with torch.inference_mode(), suppress(ChannelClosed):
        try:
            artifact = _proved(load, *files)
        except ServiceError as error:
            channel.send(Failed(failure=error.failure()).model_dump(mode="json"))
            return
        channel.send(Ready(resident_bytes=_peak_bytes()).model_dump(mode="json"))
        while True:
            _answer(channel, artifact)


class LoadedArtifact:
    """An archive's methods, and the contract that says how to call them."""

    def __init__(self, module: torch.jit.ScriptModule, contract: Contract) -> None:
        self._methods: dict[str, Callable[..., Any]] = {name: getattr(module, name) for name in contract.methods}
        self._contract = contract

    def infer(self, method: str, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The outputs by name, in the contract's order. Raises GraphRaised."""
        contract = self._contract.methods[method]
        arguments = [
            structure.assemble(argument.structure, inputs)
            for argument in contract.arguments
            if structure.is_traced(argument.structure)
        ]
        try:
            outputs = structure.tensors(self._methods[method](*arguments), "output")
            return {spec.name: outputs[spec.name] for spec in contract.outputs}
        except Exception as error:
            raise GraphRaised(f"the artifact raised: {_text_of(error)}", method=method) from error

    def prove(self, cases: list[golden.Case], tolerance: float) -> None:
        """Raises GoldenCaseFailed unless every golden case still gives what the eager model gave."""
        for case in _often_enough(cases):
            self._replay(case, tolerance)

    def warm(self, cases: list[golden.Case]) -> None:
        """For an artifact that is known to disagree with the eager model."""
        for case in _often_enough(cases):
            with suppress(GraphRaised):
                self.infer(case.method, case.inputs)

    def _replay(self, case: golden.Case, tolerance: float) -> None:
        try:
            # Copies, for an artifact may write into its inputs.
            outputs = self.infer(case.method, {name: tensor.clone() for name, tensor in case.inputs.items()})
        except GraphRaised as error:
            raise GoldenCaseFailed(f"a golden case failed: {error.detail}", method=case.method) from error
        compared = compare(case.outputs, outputs, tolerance)
        if compared.difference is not None:
            raise GoldenCaseFailed(
                f"a golden case differs in {compared.difference.leaf!r}: {compared.difference.what}",
                method=case.method, largest_difference=compared.largest,
            )  # fmt: skip


def _proved(load: Load, archive: int, golden_cases: int) -> LoadedArtifact:
    artifact = LoadedArtifact(_load(archive, load), load.contract)
    cases = _golden_cases(golden_cases, load.contract)
    if load.tolerance is None:
        artifact.warm(cases)
    else:
        artifact.prove(cases, load.tolerance)
    return artifact


def _often_enough(cases: list[golden.Case]) -> Iterator[golden.Case]:
    warm = set()
    for case in cases:
        for _ in range(1 if case.method in warm else _WARMING_CALLS):
            yield case
        warm.add(case.method)


def _load(file: int, load: Load) -> torch.jit.ScriptModule:
    try:
        with os.fdopen(file, "rb") as archive:
            module: torch.jit.ScriptModule = torch.jit.load(archive, map_location="cpu")
        if load.freeze:
            methods = [name for name in load.contract.methods if name != "forward"]
            module = torch.jit.freeze(module, preserved_attrs=methods)
        return module
    except Exception as error:
        raise RunnerLost(f"the archive could not be loaded: {_text_of(error)}") from error


def _golden_cases(file: int, contract: Contract) -> list[golden.Case]:
    try:
        cases = golden.read(file)
    except Exception as error:
        raise GoldenCaseFailed(f"the golden cases cannot be read: {_text_of(error)}") from error
    for case in cases:
        if missing := {spec.name for spec in contract.method(case.method).inputs} - case.inputs.keys():
            raise GoldenCaseFailed(f"a golden case lacks the inputs {sorted(missing)}", method=case.method)
    return cases


def _answer(channel: Channel, artifact: LoadedArtifact) -> None:
    header, body = channel.receive()
    asked = Infer.model_validate(header)
    try:
        outputs = artifact.infer(asked.method, _split(asked.inputs, body))
    except GraphRaised as error:
        channel.send(Failed(failure=error.failure()).model_dump(mode="json"))
        return
    specs = [tensors.spec_of(name, tensor) for name, tensor in outputs.items()]
    byte_size = sum(tensor.numel() * tensor.element_size() for tensor in outputs.values())
    if byte_size > asked.answer_max_bytes:
        too_large = AnswerTooLarge(f"the answer has {byte_size} bytes", limit=asked.answer_max_bytes)
        channel.send(Failed.of(too_large).model_dump(mode="json"))
        return
    channel.send(
        Inferred(outputs=specs).model_dump(mode="json"), *(tensors.to_bytes(tensor) for tensor in outputs.values())
    )


def _split(specs: list[TensorSpec], body: bytearray) -> dict[str, torch.Tensor]:
    inputs, start = {}, 0
    for spec in specs:
        end = start + spec.byte_size
        inputs[spec.name] = tensors.from_bytes(spec.datatype, spec.shape, memoryview(body)[start:end])
        start = end
    return inputs


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _text_of(error: BaseException) -> str:
    """The end of a long text: there torch says what happened, after the lines where."""
    text = str(error) or type(error).__name__
    return text if len(text) <= _TEXT_MAX_CHARACTERS else "... " + text[-_TEXT_MAX_CHARACTERS:]
