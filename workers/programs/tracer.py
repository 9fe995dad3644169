"""The tracing child, a program: load → trace → check → print → send, and then export where it is asked to.

Everything that it sends is data, and none of it is believed: submitted code runs in this process. So the check here
finds what is worth a second look, and `verification` decides. It holds no database, no settings and no secrets;
whatever the submitted code does here, it does to this process.
"""

import platform
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any, Literal

import torch

from service.domain.trace_request import Stage
from service.protocol.bounds import cut_check, cut_layer, excess_of
from service.protocol.messages import FailureReply
from service.protocol.tracer import Case, File, LayerDone, Progress, Trace, Traced, TriedExport
from service.sandbox.channel import Channel, ChannelClosed, MalformedFrame
from tracehouse.artifact.manifest import Versions
from tracehouse.check.ledger import Offered
from tracehouse.check.model_check import ModelCheck
from tracehouse.check.pipeline import RequestedSizes
from tracehouse.eager import source_excerpts
from tracehouse.exported.export import Export
from tracehouse.findings import submissions
from tracehouse.findings.trace_check import Layer
from tracehouse.spec.conversion import ScriptTarget
from tracehouse.torch_values.tensors import pack
from tracehouse.torchscript import metadata, printouts, script_targets
from tracehouse.torchscript.candidate import Candidate
from tracehouse.torchscript.trace import TraceResult as Recorded
from workers.programs.last_word import error_of
from workers.programs.request import submission_of

_VERSIONS = Versions(torch=torch.__version__, python=platform.python_version(), tracehouse=version("tracehouse"))


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    request = Trace.model_validate(header)
    torch.set_num_threads(request.threads)
    tracing = Tracing(channel, request, files)
    try:
        _say(channel, tracing.run())
        tracing.export()
    except ChannelClosed:
        return  # the parent lost interest
    except BaseException as error:  # noqa: BLE001 - submitted code: anything may come out, and is then data
        _say(channel, FailureReply.of(error_of(error)))


def _say(channel: Channel, said: Traced | FailureReply) -> None:
    message = said.model_dump(mode="json")
    if excess := excess_of(message):
        raise MalformedFrame(excess)
    channel.send(message)


class Tracing:
    """One trace request, done step by step."""

    def __init__(self, channel: Channel, request: Trace, files: Sequence[int]) -> None:
        self._channel = channel
        self._spec = request.spec
        self._conversion = request.conversion
        self._submission = submission_of(request, files)

    def run(self) -> Traced:
        self._progress(Stage.LOADING, 0.0)
        self._loaded = loaded = self._submission.load()

        self._progress(Stage.TRACING, 0.2)
        spec = self._spec
        requested = {method: RequestedSizes(given.dynamic, spec.sizes) for method, given in spec.calls.items()}
        check = ModelCheck(loaded, self._conversion, spec.options, spec.check, requested)
        candidate = check.trace()

        self._progress(Stage.CHECKING, 0.5)
        with ThreadPoolExecutor(1) as beside:  # the parent hashes and writes the archive meanwhile
            sent = beside.submit(self._send_file, "archive", candidate.traced.archive)
            # Each frame is sent whole: the layers wait for the archive.
            checked = check.run(candidate, lambda layer: beside.submit(self._say_layer, layer))
        sent.result()
        of_options = [*submissions.deprecated_options(spec.options), *submissions.options_without_effect(spec)]
        trace_check = checked.check.model_copy(update={"findings": [*checked.check.findings, *of_options]})

        self._progress(Stage.PRINTING, 0.8)
        module = candidate.traced.module
        self._send_file("printouts", printouts.print_all(module))
        self._send_file("sources", source_excerpts.collect_excerpts(trace_check.findings))
        for offered in checked.offered:
            self._send_case(offered)
        self._export = self._exporting(candidate, check.outputs)
        return Traced(
            form=candidate.form,
            entrypoint=self._spec.source.entrypoint,
            contract=check.contract,
            claims=checked.claims,
            check=cut_check(trace_check),
            submodules=metadata.submodules(module),
            parameters=metadata.tensors(module.named_parameters()),
            buffers=metadata.tensors(module.named_buffers()),
            attributes=metadata.attributes(module),
            constants=metadata.constants(module),
            in_doubt=self._in_doubt(candidate.traced),
            missing_weights=loaded.fit.missing,
            unexpected_weights=loaded.fit.unexpected,
            versions=_VERSIONS,
        )

    def _in_doubt(self, traced: Recorded) -> list[ScriptTarget]:
        read = [warned.line for warned in traced.warnings if warned.reads_value]
        return script_targets.find_targets(self._loaded.model.module, read)

    def _exporting(self, candidate: Candidate, outputs: Mapping[str, Any]) -> Export:
        tolerance, seed = self._spec.check.check_tolerance, self._spec.options.seed
        model, calls = self._loaded.model, self._loaded.calls
        return Export(model, calls, outputs, candidate.traced, candidate.form, tolerance=tolerance, seed=seed)

    def export(self) -> None:
        """After the last word, for it must not harm what was traced: nothing that it says is waited for any longer."""
        if not self._spec.options.exportability:
            return
        for tried in self._export.run_attempts():
            if tried.program is not None:
                self._send_file("exported", tried.program)
            self._channel.send(TriedExport(attempt=tried.attempt).model_dump(mode="json"))

    def forget(self) -> None:
        """Let another source have its place, after a `run` that a process outlives."""
        self._submission.uninstall_source()

    def _progress(self, stage: Stage, progress: float) -> None:
        self._channel.send(Progress(stage=stage, progress=progress).model_dump(mode="json"))

    def _say_layer(self, layer: Layer) -> None:
        self._channel.send(LayerDone(layer=cut_layer(layer)).model_dump(mode="json"))

    def _send_file(self, name: Literal["archive", "printouts", "sources", "exported"], data: bytes) -> None:
        self._channel.send(File(name=name).model_dump(mode="json"), data)

    def _send_case(self, offered: Offered) -> None:
        inputs = pack(offered.call.tensors)
        case = Case(name=offered.name, method=offered.call.method, inputs=[tensor.spec for tensor in inputs])
        self._channel.send(case.model_dump(mode="json"), *(tensor.data for tensor in inputs))
