"""The tracing child, a program: load → trace → check → print → send.

Everything that it sends is data, and none of it is believed: submitted code runs in this process. So the check here
finds what is worth a second look, and `verification` decides. It holds no database, no settings and no secrets;
whatever the submitted code does here, it does to this process.
"""

import platform
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Literal

import torch

from service.domain.artifact import Submodule, Versions
from service.domain.tensor import TensorSpec
from service.domain.trace_request import Stage
from service.sandbox.bounds import cut_check, excess_of
from service.sandbox.channel import Channel, ChannelClosed, MalformedFrame
from service.sandbox.messages import Case, Failed, File, Progress, Trace, Traced
from workers.tensors import packed, spec_of
from workers.tracing import contract, graphs, printouts
from workers.tracing.blame import error_of
from workers.tracing.checks.check import Check, Offered
from workers.tracing.checks.eager import Eager
from workers.tracing.submission import Submission
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
        _say(channel, Failed.of(error_of(error)))


def _say(channel: Channel, said: Traced | Failed) -> None:
    message = said.model_dump(mode="json")
    if excess := excess_of(message):
        raise MalformedFrame(excess)
    channel.send(message)


class Tracing:
    """One trace request, done step by step."""

    def __init__(self, channel: Channel, request: Trace, files: Sequence[int]) -> None:
        self._channel = channel
        self._spec = request.spec
        self._submission = Submission(request, files)

    def run(self) -> Traced:
        options, checks = self._spec.options, self._spec.check
        self._progress(Stage.LOADING, 0.0)
        loaded = self._submission.load()
        calls = loaded.calls

        self._progress(Stage.TRACING, 0.2)
        check = Check(Eager(loaded.model, options.seed), calls, tolerance=checks.check_tolerance, seed=options.seed)
        outputs = check.examples()
        for method, call in calls.items():
            contract.check_outputs(loaded.model.module, call, outputs[method], strict=options.strict)
        traced = trace(loaded.model, calls, options, check=checks.check_trace, tolerance=checks.check_tolerance)

        self._progress(Stage.CHECKING, 0.5)
        with ThreadPoolExecutor(1) as beside:  # the parent hashes and writes the archive meanwhile
            sent = beside.submit(self._send_file, "archive", traced.archive)
            checked = check.run(traced, loaded.check_calls, probe=checks.probes == "auto")
        sent.result()

        self._progress(Stage.PRINTING, 0.8)
        self._send_file("printouts", printouts.take(traced.module))
        for offered in checked.offered:
            self._send_case(offered)
        return Traced(
            entrypoint=self._spec.source.entrypoint,
            contract=contract.observe(calls, outputs),
            check=cut_check(checked.check),
            submodules=_submodules(traced.module),
            parameters=_specs(traced.module.named_parameters()),
            buffers=_specs(traced.module.named_buffers()),
            missing_weights=loaded.fit.missing,
            unexpected_weights=loaded.fit.unexpected,
            versions=_VERSIONS,
        )

    def forget(self) -> None:
        """Let another source have its place, after a `run` that a process outlives."""
        self._submission.forget()

    def _progress(self, stage: Stage, progress: float) -> None:
        self._channel.send(Progress(stage=stage, progress=progress).model_dump(mode="json"))

    def _send_file(self, name: Literal["archive", "printouts"], data: bytes) -> None:
        self._channel.send(File(name=name).model_dump(mode="json"), data)

    def _send_case(self, offered: Offered) -> None:
        inputs = packed(offered.call.tensors)
        case = Case(name=offered.name, method=offered.call.method, inputs=[tensor.spec for tensor in inputs])
        self._channel.send(case.model_dump(mode="json"), *(tensor.data for tensor in inputs))


def _submodules(module: torch.jit.ScriptModule) -> list[Submodule]:
    return [
        Submodule(name=name, type=part.original_name, methods=list(graphs.methods(part)))
        for name, part in module.named_modules()
        if name and isinstance(part, torch.jit.ScriptModule)
    ]


def _specs(tensors: Iterable[tuple[str, torch.Tensor]]) -> list[TensorSpec]:
    """Those that have a datatype."""
    return [spec for name, tensor in tensors if (spec := spec_of(name, tensor)) is not None]
