"""The tracing child, a program: load → trace → check → print → send.

Everything that it sends is data. It holds no database, no settings and no secrets; whatever the submitted code does
here, it does to this process.
"""

import platform
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import BinaryIO, Literal

import torch

from service.domain.artifact import Submodule, Versions
from service.domain.errors import LimitExceeded, ModelExited, ModelRaised, ServiceError, TracerLost
from service.domain.example_inputs import MethodInputs
from service.domain.tensor import TensorSpec
from service.domain.trace_request import Stage
from service.sandbox.bounds import MESSAGE_DEPTH_MAX, cut_check, nests_too_deeply
from service.sandbox.channel import Channel, ChannelClosed, MalformedFrame
from service.sandbox.messages import Failed, File, Progress, Trace, Traced
from workers import golden
from workers.tensors import spec_of
from workers.tracing import contract, graphs, inputs, lines, model, printouts, weights
from workers.tracing.blame import is_out_of_memory, out_of_memory
from workers.tracing.call import Call, bind
from workers.tracing.checks.check import Check, CheckCall
from workers.tracing.checks.eager import Eager
from workers.tracing.source import Source
from workers.tracing.trace import trace

_VERSIONS = Versions(torch=torch.__version__, python=platform.python_version(), tracehouse=version("tracehouse"))


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    request = Trace.model_validate(header)
    torch.set_num_threads(request.threads)
    try:
        _say(channel, Tracing(channel, request, files).run())
    except ChannelClosed:
        return  # the parent lost interest
    except BaseException as error:  # noqa: BLE001 - submitted code: anything may come out, and is then data
        _say(channel, Failed.of(_error_of(error)))


def _say(channel: Channel, said: Traced | Failed) -> None:
    message = said.model_dump(mode="json")
    if nests_too_deeply(message):
        raise MalformedFrame(f"it nests deeper than {MESSAGE_DEPTH_MAX} levels")
    channel.send(message)


class Tracing:
    """One trace request, done step by step."""

    def __init__(self, channel: Channel, request: Trace, files: Sequence[int]) -> None:
        self._channel = channel
        self._request = request
        self._spec = request.spec
        self._files = files

    def run(self) -> Traced:
        spec, options, checks = self._spec, self._spec.options, self._spec.check
        self._progress(Stage.LOADING, 0.0)
        self._installed = source = self._source()
        source.install()
        loaded = model.load(source, spec.source.entrypoint, spec.source.init, options.seed)
        fit = self._weights(loaded.module)
        calls, check_calls = self._calls(loaded)
        loaded.initialise(calls.values(), options.seed)

        self._progress(Stage.TRACING, 0.2)
        check = Check(Eager(loaded, options.seed), calls, tolerance=checks.check_tolerance, seed=options.seed)
        outputs = check.examples()
        for method, call in calls.items():
            contract.check_outputs(loaded.module, call, outputs[method], strict=options.strict)
        traced = trace(loaded, calls, options, check=checks.check_trace, tolerance=checks.check_tolerance)

        self._progress(Stage.CHECKING, 0.5)
        with ThreadPoolExecutor(1) as beside:  # the parent hashes and writes the archive meanwhile
            sent = beside.submit(self._send_file, "archive", traced.archive)
            checked = check.run(traced, check_calls, probe=checks.probes == "auto", freeze=options.freeze)
        sent.result()

        self._progress(Stage.PRINTING, 0.8)
        taken = printouts.take(traced.module)

        self._progress(Stage.STORING, 0.9)
        self._send_file("printouts", taken)
        self._send_file("golden", golden.write(checked.golden))
        return Traced(
            entrypoint=spec.source.entrypoint,
            contract=contract.observe(calls, outputs),
            check=cut_check(checked.check),
            submodules=_submodules(traced.module),
            parameters=_specs(traced.module.named_parameters()),
            buffers=_specs(traced.module.named_buffers()),
            missing_weights=fit.missing,
            unexpected_weights=fit.unexpected,
            versions=_VERSIONS,
        )

    def forget(self) -> None:
        """Let another source have its place, after a `run` that a process outlives."""
        self._installed.uninstall()

    def _source(self) -> Source:
        source = self._spec.source
        if source.files is not None:
            return Source.inline(source.files)
        assert source.file is not None  # one of both, as it was parsed
        module = source.entrypoint.partition(":")[0]
        with self._open(source.file) as file:
            return Source.uploaded(file, source.file, module, self._request.source_max_bytes)

    def _weights(self, module: torch.nn.Module) -> weights.Fit:
        wanted = self._spec.weights
        if wanted is None:
            return weights.Fit()
        with self._open(wanted.file) as file:
            return weights.fit(module, weights.read(file, wanted.file), strict=wanted.strict)

    def _calls(self, loaded: model.Model) -> tuple[dict[str, Call], list[CheckCall]]:
        uploaded = inputs.InputFiles(self._open)

        def bound(method: str, given: MethodInputs) -> Call:
            args = [inputs.materialise(tree, uploaded) for tree in given.example_inputs]
            kwargs = {name: inputs.materialise(tree, uploaded) for name, tree in given.example_kwarg_inputs.items()}
            return bind(loaded.module, method, loaded.method_name(method), args, kwargs)

        calls = {method: bound(method, given) for method, given in self._spec.calls.items()}
        for call in calls.values():
            contract.check_inputs(call)
        check_calls = [
            CheckCall(f"check_inputs[{index}]", bound(given.method, given))
            for index, given in enumerate(self._spec.check.check_inputs)
        ]
        return calls, check_calls

    def _open(self, name: str) -> BinaryIO:
        """An uploaded file from its start; its descriptor stays open for the next reader."""
        file = open(self._files[self._request.files[name]], "rb", closefd=False)  # noqa: SIM115 - the caller's to close
        file.seek(0)
        return file

    def _progress(self, stage: Stage, progress: float) -> None:
        self._channel.send(Progress(stage=stage, progress=progress).model_dump(mode="json"))

    def _send_file(self, name: Literal["archive", "printouts", "golden"], data: bytes) -> None:
        self._channel.send(File(name=name).model_dump(mode="json"), data)


def _error_of(error: BaseException) -> ServiceError:
    """Whose fault it is. What submitted code raises has become a TraceError where it was called."""
    match error:
        case ServiceError():
            return error
        case SystemExit():
            return ModelExited(f"the model code called sys.exit({lines.text_of(error)})", **lines.facts_of(error))
        case RecursionError():
            return ModelRaised("what the model code gave nests too deeply", **lines.facts_of(error))
        case MalformedFrame():  # all that is sent here is well-formed, but may be too much
            return LimitExceeded(f"the artifact is too large: {error}", limit="result")
        case Exception():
            if is_out_of_memory(error):
                return out_of_memory(error)
            traceback.print_exception(error)
            return TracerLost(f"the tracer failed: {type(error).__name__}", **lines.facts_of(error))
    return ModelExited(f"the model code raised {type(error).__name__}", **lines.facts_of(error))


def _submodules(module: torch.jit.ScriptModule) -> list[Submodule]:
    return [
        Submodule(name=name, type=part.original_name, methods=list(graphs.methods(part)))
        for name, part in module.named_modules()
        if name and isinstance(part, torch.jit.ScriptModule)
    ]


def _specs(tensors: Iterable[tuple[str, torch.Tensor]]) -> list[TensorSpec]:
    """Those that have a datatype."""
    return [spec for name, tensor in tensors if (spec := spec_of(name, tensor)) is not None]
