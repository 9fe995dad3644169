"""The runner, a child program: loads one archive, proves it on its golden cases, and answers until its channel ends.

An archive that is verified for the first time has no golden cases yet: it is loaded all the same, and answers.
"""

import os
import resource
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from service.protocol.messages import FailureReply
from service.protocol.reference import Differentiate, GradientReply
from service.protocol.runner import Infer, Load, OutputReply, Ready, to_runner
from service.sandbox.channel import Channel, ChannelClosed
from tracehouse.contract.contract import Contract
from tracehouse.contract.structure import Argument, Structure
from tracehouse.differential import golden
from tracehouse.errors import AnswerTooLarge, GoldenCaseFailed, GraphRaised, RunnerLost, ServiceError
from tracehouse.introspection import paths
from tracehouse.tensors.tensor import Tensor, split
from tracehouse.torch_values import gradients, script_calls, structure, tensors
from tracehouse.torch_values.compare import compare
from tracehouse.torch_values.gradients import Gradients

_TEXT_MAX_CHARACTERS = 4000


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    load = Load.model_validate(header)
    torch.set_num_threads(load.threads)
    # All runners would draw alike, with the state of the process that they were forked from. torch.seed() opens a file.
    torch.manual_seed(int.from_bytes(os.urandom(8)) >> 1)
    # torch.jit says at each call that it is deprecated: nobody here called it.
    warnings.filterwarnings("ignore", message=r"`torch\.jit\.")
    with torch.inference_mode(not load.gradients), suppress(ChannelClosed):
        try:
            artifact = _proved(load, *files)
        except ServiceError as error:
            channel.send(FailureReply.of(error).model_dump(mode="json"))
            return
        channel.send(Ready(resident_bytes=_peak_bytes()).model_dump(mode="json"))
        while True:
            _answer(channel, artifact)


class LoadedArtifact:
    """An archive's methods, and the contract that says how to call them."""

    def __init__(self, module: torch.jit.ScriptModule, contract: Contract, device: str = "cpu") -> None:
        if missing := [name for name in contract.methods if not hasattr(module, name)]:
            raise RunnerLost(f"the archive has no method {missing[0]!r}")
        self._module = module
        self._methods: dict[str, Callable[..., Any]] = {name: getattr(module, name) for name in contract.methods}
        self._contract = contract
        self._device = device

    def infer(self, method: str, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The outputs by name, in the contract's order. Raises GraphRaised."""
        contract = self._contract.methods[method]
        outputs = structure.tensors(self.call(method, contract.arguments, inputs), "output")
        if missing := [spec.name for spec in contract.outputs if spec.name not in outputs]:
            raise GraphRaised(f"the artifact raised: it returned no {missing[0]!r}", method=method)
        return {spec.name: outputs[spec.name] for spec in contract.outputs}

    def call(self, method: str, arguments: Sequence[Argument], inputs: Mapping[str, torch.Tensor]) -> Any:
        """All that it returns, for inputs that nest in such arguments. Raises GraphRaised."""
        there = {name: tensor.to(self._device) for name, tensor in inputs.items()}
        handed_over = {
            argument.name: structure.assemble(argument.structure, there)
            for argument in arguments
            if structure.is_traced(argument.structure)
        }
        function: Any = self._methods[method]
        try:
            return script_calls.call(function, function.schema, handed_over)
        except Exception as error:
            raise GraphRaised(f"the artifact raised: {_text_of(error)}", method=method) from error

    def differentiate(self, asked: Differentiate, inputs: Mapping[str, torch.Tensor]) -> Gradients:
        """Raises GraphRaised and AnswerTooLarge."""

        def run(given: Mapping[str, torch.Tensor]) -> Any:
            return self.call(asked.method, asked.arguments, given)

        try:
            return gradients.differentiate(run, inputs, self._module, asked.seed, most=asked.answer_max_bytes)
        except ServiceError:
            raise
        except Exception as error:
            detail = f"the artifact raised on the way back: {_text_of(error)}"
            raise GraphRaised(detail, method=asked.method) from error

    def prove(self, cases: list[golden.Case], tolerance: float) -> None:
        """Raises GoldenCaseFailed unless every golden case still gives what the eager model gave."""
        for case in _often_enough(cases):
            self._replay(case, tolerance)

    def warm(self, cases: list[golden.Case]) -> None:
        """For an artifact that is known to disagree with the eager model."""
        for case in _often_enough(cases):
            with suppress(GraphRaised):
                self.infer(case.method, tensors.unpacked(case.inputs))

    def _replay(self, case: golden.Case, tolerance: float) -> None:
        try:
            outputs = self.infer(case.method, tensors.unpacked(case.inputs))
        except GraphRaised as error:
            raise GoldenCaseFailed(f"a golden case failed: {error.detail}", method=case.method) from error
        compared = compare(tensors.unpacked(case.outputs), outputs, tolerance)
        if compared.difference is not None:
            raise GoldenCaseFailed(
                f"a golden case differs in {compared.difference.leaf!r}: {compared.difference.what}",
                method=case.method, largest_difference=compared.largest,
            )  # fmt: skip


def _proved(load: Load, archive: int, golden_cases: int | None = None) -> LoadedArtifact:
    artifact = LoadedArtifact(_load(archive, load), load.contract, load.device)
    if golden_cases is None:
        return artifact
    cases = _golden_cases(golden_cases, load.contract)
    if load.tolerance is None:
        artifact.warm(cases)
    else:
        artifact.prove(cases, load.tolerance)
    return artifact


def _often_enough(cases: list[golden.Case]) -> Iterator[golden.Case]:
    warm = set()
    for case in cases:
        for _ in range(1 if case.method in warm else golden.CALLS_TO_SPECIALISE):
            yield case
        warm.add(case.method)


def _load(file: int, load: Load) -> torch.jit.ScriptModule:
    try:
        with os.fdopen(file, "rb") as archive:
            module: torch.jit.ScriptModule = torch.jit.load(archive, map_location=load.device)
    except Exception as error:
        raise RunnerLost(f"the archive could not be loaded: {_text_of(error)}") from error
    try:
        return _served(module, load)
    except Exception as error:
        raise RunnerLost(f"the form that is served could not be made: {_text_of(error)}") from error


def _served(module: torch.jit.ScriptModule, load: Load) -> torch.jit.ScriptModule:
    methods = [name for name in load.contract.methods if name != "forward"]
    match load.served_form:
        case "optimize_for_inference":
            module = torch.jit.optimize_for_inference(module, methods)
        case "freeze":
            module = torch.jit.freeze(module, preserved_attrs=methods)
    return module


def _golden_cases(file: int, contract: Contract) -> list[golden.Case]:
    try:
        cases = golden.read(file)
    except Exception as error:
        raise GoldenCaseFailed(f"the golden cases cannot be read: {_text_of(error)}") from error
    for case in cases:
        if missing := {spec.name for spec in contract.method(case.method).inputs} - {one.name for one in case.inputs}:
            raise GoldenCaseFailed(f"a golden case lacks the inputs {sorted(missing)}", method=case.method)
    return cases


def _answer(channel: Channel, artifact: LoadedArtifact) -> None:
    header, body = channel.receive()
    asked = to_runner.validate_python(header)
    inputs = tensors.unpacked(split(asked.inputs, body))
    try:
        match asked:
            case Infer():
                said, answer = _inferred(artifact, asked, inputs)
            case Differentiate():
                said, answer = _differentiated(artifact, asked, inputs)
    except (GraphRaised, AnswerTooLarge) as error:
        channel.send(FailureReply.of(error).model_dump(mode="json"))
        return
    channel.send(said.model_dump(mode="json"), *(tensor.data for tensor in answer))


def _inferred(
    artifact: LoadedArtifact, asked: Infer, inputs: Mapping[str, torch.Tensor]
) -> tuple[OutputReply | GradientReply, list[Tensor]]:
    answer, returns = _asked(artifact, asked, inputs)
    outputs = _with_datatypes(asked.method, answer)
    byte_size = sum(len(tensor.data) for tensor in outputs)
    if byte_size > asked.answer_max_bytes:
        raise AnswerTooLarge(f"the answer has {byte_size} bytes", limit=asked.answer_max_bytes)
    return OutputReply(outputs=[tensor.spec for tensor in outputs], returns=returns), outputs


def _differentiated(
    artifact: LoadedArtifact, asked: Differentiate, inputs: Mapping[str, torch.Tensor]
) -> tuple[OutputReply | GradientReply, list[Tensor]]:
    found = artifact.differentiate(asked, inputs)
    specs = [tensor.spec for tensor in found.tensors]
    return GradientReply(tensors=specs, without=found.without), found.tensors


def _asked(
    artifact: LoadedArtifact, asked: Infer, inputs: Mapping[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], Structure | None]:
    if asked.arguments is None:
        return artifact.infer(asked.method, inputs), None
    outputs = artifact.call(asked.method, asked.arguments, inputs)
    return structure.tensors(outputs, "output"), structure.describe(outputs, "output")


def _with_datatypes(method: str, outputs: Mapping[str, torch.Tensor]) -> list[Tensor]:
    if lacking := [name for name, tensor in outputs.items() if tensors.datatype_of(tensor) is None]:
        dtype = outputs[lacking[0]].dtype
        raise GraphRaised(f"the artifact returned {lacking[0]!r} as {dtype}, which has no datatype", method=method)
    return tensors.packed(outputs)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _text_of(error: BaseException) -> str:
    """The end of a long text: there torch says what happened, after the lines where."""
    text = paths.without_paths_in_stacks(str(error)) or type(error).__name__
    return text if len(text) <= _TEXT_MAX_CHARACTERS else "... " + text[-_TEXT_MAX_CHARACTERS:]
