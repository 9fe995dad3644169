"""The runner, a child program: loads one archive, replays its golden cases, and answers until its channel ends.

An archive that is being verified has no golden cases yet: it is loaded all the same, and answers.
"""

import os
import resource
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from service.protocol.calls import ANSWERS, CALL, Call, answer_header, split_rows
from service.protocol.messages import FailureReply
from service.protocol.reference import Differentiate, GradientReply
from service.protocol.runner import Infer, Load, OutputReply, RunnerReady, to_runner
from service.sandbox.channel import Channel, ChannelClosed, Frame
from tracehouse.contract.contract import Contract
from tracehouse.contract.structure import Argument, Structure
from tracehouse.differential import golden
from tracehouse.errors import AnswerTooLarge, GoldenCaseFailed, GraphRaised, RunnerLost, ServiceError
from tracehouse.forms import raced, torchscript
from tracehouse.forms.selective_form import SelectiveForm
from tracehouse.forms.usual_max import usual_max
from tracehouse.introspection import paths
from tracehouse.tensors.tensor import Tensor, split
from tracehouse.torch_values import gradients, returned, script_archives, script_calls, structure, tensors
from tracehouse.torch_values.compare import compare
from tracehouse.torch_values.generators import read_generators
from tracehouse.torch_values.gradients import Gradients

_TEXT_MAX_CHARACTERS = 4000


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    load = Load.model_validate(header)
    torch.set_num_threads(load.threads)
    # Runners share the generator state of the process that they were forked from, and would draw the same numbers.
    # torch.seed() would open a file.
    torch.manual_seed(int.from_bytes(os.urandom(8)) >> 1)
    # torch.jit warns at each call that it is deprecated, which is of no use to whoever is answered.
    warnings.filterwarnings("ignore", message=r"`torch\.jit\.")
    with torch.inference_mode(not load.gradients), suppress(ChannelClosed):
        try:
            artifact = _load_artifact(load, *files)
        except ServiceError as error:
            channel.send(FailureReply.of(error).model_dump(mode="json"))
            return
        channel.send(RunnerReady(resident_bytes=_peak_bytes()).model_dump(mode="json"))
        while True:
            _answer(channel, artifact)


class LoadedArtifact:
    """A loaded archive's methods, and the contract that says how to call them."""

    def __init__(self, module: torch.jit.ScriptModule | SelectiveForm, contract: Contract, device: str = "cpu") -> None:
        if missing := [name for name in contract.methods if not hasattr(module, name)]:
            raise RunnerLost(f"the archive has no method {missing[0]!r}")
        self._module = module
        self._methods: dict[str, Callable[..., Any]] = {name: getattr(module, name) for name in contract.methods}
        self._contract = contract
        self._device = device
        self._by_position: dict[tuple[str, ...], int] = {}  # of a method and its arguments' names, how many are so

    def infer(self, method: str, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the outputs by name, in the contract's order. Raises GraphRaised."""
        contract = self._contract.methods[method]
        outputs = returned.tensors(self.call(method, contract.arguments, contract.returns, inputs))
        if missing := [spec.name for spec in contract.outputs if spec.name not in outputs]:
            raise GraphRaised(f"the artifact raised: it returned no {missing[0]!r}", method=method)
        return {spec.name: outputs[spec.name] for spec in contract.outputs}

    def call(
        self,
        method: str,
        arguments: Sequence[Argument],
        returns: Structure | None,
        inputs: Mapping[str, torch.Tensor],
    ) -> Any:
        """Return all that the method returns on inputs that nest in these arguments, nested as `returns` if that fits.

        Raises GraphRaised.
        """
        on_device = {name: tensor.to(self._device) for name, tensor in inputs.items()}
        values = {
            argument.name: structure.assemble(argument.structure, on_device)
            for argument in arguments
            if structure.is_traced(argument.structure)
        }
        try:
            outputs = returned.open_containers(self._call_method(method, values))
        except Exception as error:
            raise GraphRaised(f"the artifact raised: {_text_of(error)}", method=method) from error
        return outputs if returns is None else returned.restore(returns, outputs)

    def _call_method(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Do what `script_calls.call_method` does, which would look at the schema at each call."""
        function: Any = self._methods[method]
        key = (method, *arguments)
        by_position = self._by_position.get(key)
        if by_position is None:
            by_position = self._by_position[key] = script_calls.count_by_position(function.schema, [*arguments])
        if by_position == len(arguments):
            return function(*arguments.values())
        names, values = [*arguments], [*arguments.values()]
        return function(*values[:by_position], **dict(zip(names[by_position:], values[by_position:], strict=True)))

    def differentiate(self, request: Differentiate, inputs: Mapping[str, torch.Tensor]) -> Gradients:
        """Raises GraphRaised and AnswerTooLarge."""

        def run(inputs: Mapping[str, torch.Tensor]) -> Any:
            return self.call(request.method, request.arguments, request.returns, inputs)

        assert not isinstance(self._module, SelectiveForm)  # no form answers what is loaded for gradients
        try:
            return gradients.differentiate(run, inputs, self._module, request.seed, most=request.answer_max_bytes)
        except ServiceError:
            raise
        except Exception as error:
            detail = f"the artifact raised on the way back: {_text_of(error)}"
            raise GraphRaised(detail, method=request.method) from error

    def prove(self, cases: list[golden.GoldenCase], tolerance: float) -> None:
        """Raises GoldenCaseFailed unless every golden case still gives what the eager model gave."""
        for case in _repeat_until_specialised(cases):
            self._replay(case, tolerance)

    def warm(self, cases: list[golden.GoldenCase]) -> None:
        """Call the golden cases without comparing: for an artifact that is known to disagree with the eager model."""
        for case in _repeat_until_specialised(cases):
            with suppress(GraphRaised):
                self.infer(case.method, tensors.unpack(case.inputs))

    def _replay(self, case: golden.GoldenCase, tolerance: float) -> None:
        try:
            if case.seed is not None:
                torch.manual_seed(case.seed)
            outputs = self.infer(case.method, tensors.unpack(case.inputs))
        except GraphRaised as error:
            raise GoldenCaseFailed(f"a golden case failed: {error.detail}", method=case.method) from error
        compared = compare(tensors.unpack(case.outputs), outputs, tolerance)
        if compared.difference is not None:
            raise GoldenCaseFailed(
                f"a golden case differs in {compared.difference.leaf!r}: {compared.difference.what}",
                method=case.method, largest_difference=compared.largest,
            )  # fmt: skip


def _load_artifact(load: Load, archive: int, golden_cases: int | None = None) -> LoadedArtifact:
    """Return the archive's artifact, which has replayed the golden cases if there are any."""
    cases = [] if golden_cases is None else _read_golden_cases(golden_cases, load.contract)
    artifact = LoadedArtifact(_load_module(archive, load, cases), load.contract, load.device)
    if load.tolerance is None:
        artifact.warm(cases)
    else:
        artifact.prove(cases, load.tolerance)
    return artifact


def _repeat_until_specialised(cases: list[golden.GoldenCase]) -> Iterator[golden.GoldenCase]:
    """Yield each case, the first one of each method as often as torch needs to specialise it."""
    warm = set()
    for case in cases:
        for _ in range(1 if case.method in warm else golden.CALLS_TO_SPECIALISE):
            yield case
        warm.add(case.method)


def _load_module(file: int, load: Load, cases: Sequence[golden.GoldenCase]) -> torch.jit.ScriptModule | SelectiveForm:
    """Return the archive's module in the form that is served. Raises RunnerLost."""
    try:
        with os.fdopen(file, "rb") as archive:
            module = script_archives.load(archive, load.device)
    except Exception as error:
        raise RunnerLost(f"the archive could not be loaded: {_text_of(error)}") from error
    try:
        module = torchscript.convert(module, load.served_form, load.contract.methods)
        if load.refuses_steps:
            raced.require_no_step(module)
        if load.raced_form is None:
            return module
        return raced.make(module, load.raced_form, _raced_calls(load, cases))
    except raced.NoSuchForm as error:
        raise RunnerLost(str(error)) from error
    except Exception as error:
        raise RunnerLost(f"the form that is served could not be made: {_text_of(error)}") from error


def _raced_calls(load: Load, cases: Sequence[golden.GoldenCase]) -> raced.RacedCalls:
    if not cases:
        raise raced.NoSuchForm("it has no golden cases")
    contract, example = load.contract.method("forward"), tensors.unpack(cases[0].inputs)
    float_max = usual_max(one for case in cases for one in case.inputs)
    return raced.RacedCalls(contract, example, float_max, load.form_tolerance)


def _read_golden_cases(file: int, contract: Contract) -> list[golden.GoldenCase]:
    """Raises GoldenCaseFailed where the cases cannot be read, or lack an input."""
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
    if header["kind"] == CALL:
        call = Call.read(header, body)
        for frames in _answer_call(artifact, call):
            channel.send_frames(frames)
        return
    request = to_runner.validate_python(header)
    inputs = tensors.unpack(split(request.inputs, body))
    reply: OutputReply | GradientReply
    try:
        match request:
            case Infer():
                reply, body_tensors = _infer(artifact, request, inputs)
            case Differentiate():
                reply, body_tensors = _differentiate(artifact, request, inputs)
    except (GraphRaised, AnswerTooLarge) as error:
        channel.send(FailureReply.of(error).model_dump(mode="json"))
        return
    channel.send(reply.model_dump(mode="json"), *(tensor.data for tensor in body_tensors))


def _answer_call(artifact: LoadedArtifact, call: Call) -> Iterator[list[Frame]]:
    """Yield the frames for the requests in the call, each list before the artifact is called again: it may return a
    buffer of its own, and write into it with the next call."""
    if call.seed is not None:
        torch.manual_seed(call.seed)
    if call.rows is None:
        yield [_answer_alone(artifact, call, call.inputs)]
        return
    if (frames := _answer_joined(artifact, call, call.rows)) is not None:
        yield frames
        return
    for part in split_rows(call.inputs, call.rows):
        yield [_answer_alone(artifact, call, part)]


def _answer_joined(artifact: LoadedArtifact, call: Call, rows: Sequence[int]) -> list[Frame] | None:
    """Return the frames of one call for all requests; None if they have to be answered one by one."""
    try:
        outputs = _pack(call.method, _infer_filled(artifact, call, call.inputs))
        if all(one.shape and one.shape[0] == sum(rows) for one in outputs):
            return _joined_frames(call, outputs, rows)
    except (GraphRaised, AnswerTooLarge):
        pass  # because of one of the requests, perhaps: the others have an answer
    return None


def _joined_frames(call: Call, outputs: Sequence[Tensor], rows: Sequence[int]) -> list[Frame]:
    """Return one frame for all requests if it is no larger than the answer to one may be, else a frame for each.

    Raises AnswerTooLarge.
    """
    if _byte_size(outputs) <= call.answer_max_bytes:
        return [(answer_header(outputs, ANSWERS), [tensor.data for tensor in outputs])]
    return [_frame(call, part) for part in split_rows(outputs, rows)]


def _answer_alone(artifact: LoadedArtifact, call: Call, inputs: Sequence[Tensor]) -> Frame:
    try:
        return _frame(call, _pack(call.method, _infer_filled(artifact, call, inputs)))
    except (GraphRaised, AnswerTooLarge) as error:
        return FailureReply.of(error).model_dump(mode="json"), []


def _infer_filled(artifact: LoadedArtifact, call: Call, inputs: Sequence[Tensor]) -> dict[str, torch.Tensor]:
    """Return the outputs for inputs whose bytes are read anew, for the artifact may have changed its inputs before.

    If the call's numbers of rows are given, the artifact gets one of these, and the outputs for the first rows are
    returned. Raises GraphRaised.
    """
    given = tensors.unpack(inputs)
    rows = inputs[0].shape[0] if call.row_counts else 0
    filled = min((count for count in call.row_counts if count >= rows), default=rows)
    if filled == rows:
        return artifact.infer(call.method, given)
    longer = {name: torch.cat([one, one[:1].expand(filled - rows, *one.shape[1:])]) for name, one in given.items()}
    outputs = artifact.infer(call.method, longer)
    if any(one.dim() == 0 or one.shape[0] != filled for one in outputs.values()):
        raise GraphRaised("the artifact raised: it returned another number of rows", method=call.method)
    return {name: one[:rows] for name, one in outputs.items()}


def _frame(call: Call, outputs: Sequence[Tensor]) -> Frame:
    """Raises AnswerTooLarge."""
    if (byte_size := _byte_size(outputs)) > call.answer_max_bytes:
        raise AnswerTooLarge(f"the answer has {byte_size} bytes", limit=call.answer_max_bytes)
    return answer_header(outputs), [tensor.data for tensor in outputs]


def _byte_size(outputs: Sequence[Tensor]) -> int:
    return sum(len(tensor.data) for tensor in outputs)


def _infer(
    artifact: LoadedArtifact, request: Infer, inputs: Mapping[str, torch.Tensor]
) -> tuple[OutputReply, list[Tensor]]:
    """Raises GraphRaised and AnswerTooLarge."""
    if request.threads is not None:
        torch.set_num_threads(request.threads)
    if request.seed is not None:
        torch.manual_seed(request.seed)
    is_verified = request.arguments is not None
    before = read_generators() if is_verified else []
    answer, returns = _call(artifact, request, inputs)
    drew = is_verified and read_generators() != before
    outputs = _pack(request.method, answer)
    if (byte_size := _byte_size(outputs)) > request.answer_max_bytes:
        raise AnswerTooLarge(f"the answer has {byte_size} bytes", limit=request.answer_max_bytes)
    return OutputReply(outputs=[tensor.spec for tensor in outputs], returns=returns, drew=drew), outputs


def _differentiate(
    artifact: LoadedArtifact, request: Differentiate, inputs: Mapping[str, torch.Tensor]
) -> tuple[GradientReply, list[Tensor]]:
    """Raises GraphRaised and AnswerTooLarge."""
    torch.manual_seed(request.seed)
    found = artifact.differentiate(request, inputs)
    specs = [tensor.spec for tensor in found.tensors]
    return GradientReply(tensors=specs, without=found.without), found.tensors


def _call(
    artifact: LoadedArtifact, request: Infer, inputs: Mapping[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], Structure | None]:
    """Return the outputs by name; and how they nest, where the request says how the inputs do."""
    if request.arguments is None:
        return artifact.infer(request.method, inputs), None
    outputs = artifact.call(request.method, request.arguments, request.returns, inputs)
    return returned.tensors(outputs), structure.describe(outputs, "output")


def _pack(method: str, outputs: Mapping[str, torch.Tensor]) -> list[Tensor]:
    """Raises GraphRaised for an output whose dtype has no datatype in the protocol."""
    if lacking := [name for name, tensor in outputs.items() if tensors.datatype_of(tensor) is None]:
        dtype = outputs[lacking[0]].dtype
        raise GraphRaised(f"the artifact returned {lacking[0]!r} as {dtype}, which has no datatype", method=method)
    return tensors.pack(outputs)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _text_of(error: BaseException) -> str:
    """Return the error's text, or its end if it is long: there torch says what happened, after the lines where."""
    text = paths.without_paths_in_stacks(str(error)) or type(error).__name__
    return text if len(text) <= _TEXT_MAX_CHARACTERS else "... " + text[-_TEXT_MAX_CHARACTERS:]
