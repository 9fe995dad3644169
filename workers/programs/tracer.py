"""The tracing child, a program: load → trace → check → print → send, and then export if the request asks for it.

Submitted code runs in this process, so the parent trusts nothing that it sends: the check here finds what needs a
second look, and `verification` decides. The process has no database, no settings and no secrets, so submitted code can
harm this process alone.
"""

import os
import platform
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fcntl import F_DUPFD, fcntl
from importlib.metadata import version
from typing import Literal

import torch

from service.domain.trace_request import Stage
from service.protocol.bounds import cut_check, cut_layer, excess_of
from service.protocol.messages import FailureReply
from service.protocol.tracer import Case, ExportDone, File, LayerDone, Progress, Trace, Traced
from service.sandbox.channel import Channel, ChannelClosed, MalformedFrame
from tracehouse.artifact.manifest import Versions
from tracehouse.check.check import CheckResult
from tracehouse.check.kept_archive import keep_archive
from tracehouse.check.ledger import OfferedCall
from tracehouse.check.memory_plan import BESIDE_BYTES
from tracehouse.check.model_check import ModelCheck
from tracehouse.check.pipeline import RequestedSizes
from tracehouse.contract.contract import RankClaim
from tracehouse.eager import source_excerpts
from tracehouse.exported.export import Export
from tracehouse.findings import submissions
from tracehouse.findings.trace_check import Layer, TraceCheck
from tracehouse.introspection.shown_warnings import shown_once
from tracehouse.spec.conversion import ScriptTarget
from tracehouse.step_times import StepTimes, record, step
from tracehouse.torch_values.tensors import pack
from tracehouse.torchscript import archives, metadata, printouts, script_targets
from tracehouse.torchscript.archives import Archive
from tracehouse.torchscript.candidate import Candidate
from tracehouse.torchscript.fixed_devices import find_fixed_devices
from tracehouse.torchscript.trace import TraceResult
from workers.programs.program_error import to_service_error
from workers.programs.request import make_submission

# torch names an archive's folder after the last part of its file's path, here the descriptor's number: always this one,
# so that equal models have equal archives.
_ARCHIVE_NUMBER = 64
_VERSIONS = Versions(torch=torch.__version__, python=platform.python_version(), tracehouse=version("tracehouse"))


def main(channel: Channel, files: list[int]) -> None:
    header, _ = channel.receive()
    request = Trace.model_validate(header)
    torch.set_num_threads(request.threads)
    tracing = Tracing(channel, request, files)
    try:
        with shown_once():
            _send(channel, tracing.run())
            tracing.export()
    except ChannelClosed:
        return  # the parent waits for nothing more
    except BaseException as error:  # noqa: BLE001 - submitted code: anything may come out, and is then data
        _send(channel, FailureReply.of(to_service_error(error)))


def _send(channel: Channel, message: Traced | FailureReply) -> None:
    header = message.model_dump(mode="json")
    if excess := excess_of(header):
        raise MalformedFrame(excess)
    channel.send(header)


class Tracing:
    """The steps of one trace request."""

    def __init__(self, channel: Channel, request: Trace, files: Sequence[int]) -> None:
        self._channel = channel
        self._spec = request.spec
        self._conversion = request.conversion
        self._budget_most_s = request.budget_most_s
        self._kept_archive = None if request.archive is None else files[request.archive]
        self._archive_file = None if request.archive_file is None else files[request.archive_file]
        self._submission = make_submission(request, files)
        self._times = StepTimes()

    def run(self) -> Traced:
        """Load, trace, check and print; send the files and cases, and return the last message. Raises ServiceError."""
        with record(self._times):
            traced = self._run()
        return traced.model_copy(update={"steps": self._times.steps})

    def _run(self) -> Traced:
        self._progress(Stage.LOADING, 0.0)
        with step("load"):
            self._loaded = loaded = self._submission.load()

        self._progress(Stage.TRACING, 0.2)
        spec = self._spec
        requested = {method: RequestedSizes(call.dynamic, spec.sizes) for method, call in spec.calls.items()}
        check = ModelCheck(
            loaded, self._conversion, spec.options, spec.check, requested, budget_most_s=self._budget_most_s
        )
        with _renumber(self._archive_file) as archive_file, archives.written_into(archive_file):
            candidate = check.trace()
        candidate = self._keep_archive(candidate)

        self._progress(Stage.CHECKING, 0.5)
        with ThreadPoolExecutor(1) as beside:  # the parent hashes and writes the archive meanwhile
            sending = beside.submit(self._send_archive, candidate.traced.archive)
            # The check has no room for an archive as large as the model, so that only the sender holds it.
            is_large = len(candidate.traced.archive) > BESIDE_BYTES
            if not spec.options.exportability:
                candidate = candidate.without_archive()
            if is_large:
                sending.result()
            # Each frame is sent whole: the layers wait for the archive.
            with step("check"):
                result = check.run(candidate, lambda layer: beside.submit(self._send_layer, layer))
        sending.result()
        on_request = [
            *submissions.deprecated_options(spec.options),
            *submissions.options_without_effect(spec),
            *submissions.stubbed_packages(self._submission.stubbed),
        ]
        found = [*loaded.fit.findings, *result.check.findings, *on_request]
        trace_check = result.check.model_copy(update={"findings": found})

        self._progress(Stage.PRINTING, 0.8)
        module = candidate.traced.module
        with step("printouts"):
            self._send_file("printouts", printouts.print_all(module))
        with step("manifest"):
            self._send_file("sources", source_excerpts.collect_excerpts(trace_check.findings))
            for offered in result.offered:
                self._send_case(offered)
            self._export = self._plan_export(candidate, check)
            return self._last_message(candidate, check, result, trace_check)

    def _last_message(
        self, candidate: Candidate, check: ModelCheck, result: CheckResult, trace_check: TraceCheck
    ) -> Traced:
        module, loaded = candidate.traced.module, self._loaded
        return Traced(
            form=candidate.form,
            entrypoint=self._spec.source.entrypoint,
            contract=check.contract,
            claims=result.claims,
            other_ranks={
                method: [RankClaim(case=one.case, claim=one.claim) for one in found]
                for method, found in result.other_ranks.items()
            },
            check=cut_check(trace_check),
            submodules=metadata.submodules(module),
            parameters=metadata.tensors(module.named_parameters()),
            buffers=metadata.tensors(module.named_buffers()),
            attributes=metadata.attributes(module),
            constants=metadata.constants(module),
            devices=find_fixed_devices(module),
            in_doubt=self._find_script_targets(candidate.traced),
            missing_weights=loaded.fit.missing,
            unexpected_weights=loaded.fit.unexpected,
            versions=_VERSIONS,
        )

    def _find_script_targets(self, traced: TraceResult) -> list[ScriptTarget]:
        lines = [warning.line for warning in traced.warnings if warning.reads_value]
        return script_targets.find_targets(self._loaded.model.module, lines)

    def _plan_export(self, candidate: Candidate, check: ModelCheck) -> Export:
        tolerance, seed = self._spec.check.tolerance, self._spec.options.seed
        model, calls = self._loaded.model, check.submission.calls
        return Export(model, calls, check.outputs, candidate.traced, candidate.form, tolerance=tolerance, seed=seed)

    def export(self) -> None:
        """Try torch.export if the request asks for it. It runs after `Traced` is sent, so it cannot harm the trace."""
        if not self._spec.options.exportability or self._kept_archive is not None:
            return
        for exported in self._export.run_attempts():
            if exported.program is not None:
                self._send_file("exported", exported.program)
            self._channel.send(ExportDone(attempt=exported.attempt).model_dump(mode="json"))

    def forget(self) -> None:
        """Unload the source, so that another one can be loaded in this process."""
        self._submission.uninstall_source()

    def _progress(self, stage: Stage, progress: float) -> None:
        self._channel.send(Progress(stage=stage, progress=progress).model_dump(mode="json"))

    def _send_layer(self, layer: Layer) -> None:
        self._channel.send(LayerDone(layer=cut_layer(layer)).model_dump(mode="json"))

    def _send_file(self, name: Literal["archive", "printouts", "sources", "exported"], data: bytes) -> None:
        self._channel.send(File(name=name).model_dump(mode="json"), data)

    def _keep_archive(self, candidate: Candidate) -> Candidate:
        """Return what is checked: the new candidate or, if the check goes on, the archive that was made before."""
        if self._kept_archive is None:
            return candidate
        with open(self._kept_archive, "rb", closefd=False) as archive:
            return keep_archive(candidate, archive, self._submission.device)

    def _send_archive(self, archive: Archive) -> None:
        if self._kept_archive is not None:  # the parent has that one
            return
        if isinstance(archive, bytes):
            self._send_file("archive", archive)
        else:
            self._channel.send(File(name="archive", in_file=True).model_dump(mode="json"))

    def _send_case(self, offered: OfferedCall) -> None:
        inputs = pack(offered.call.tensors)
        case = Case(name=offered.name, method=offered.call.method, inputs=[tensor.spec for tensor in inputs])
        self._channel.send(case.model_dump(mode="json"), *(tensor.data for tensor in inputs))


@contextmanager
def _renumber(file: int | None) -> Iterator[int | None]:
    if file is None:
        yield None
        return
    number = fcntl(file, F_DUPFD, _ARCHIVE_NUMBER)
    try:
        yield number
    finally:
        os.close(number)
