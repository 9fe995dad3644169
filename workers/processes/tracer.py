"""The process that traces, as its parent sees it: what it sends is parsed and bounded, and none of it is believed."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from service.domain.trace_request import Stage
from service.protocol.bounds import LAYERS_MAX, cut_layer
from service.protocol.messages import FailureReply
from service.protocol.tracer import Case, ExportDone, File, LayerDone, Progress, Trace, Traced, from_tracer
from service.sandbox import memory_file
from service.sandbox.channel import MalformedFrame
from service.sandbox.child import Child
from service.storage.blobs import StagedBlob
from tracehouse.artifact.file_limits import PRINTOUTS_MAX_BYTES, SOURCES_MAX_BYTES
from tracehouse.artifact.manifest import Form
from tracehouse.byte_units import MIB
from tracehouse.differential.offered_cases import CASES_MAX, CASES_MAX_BYTES
from tracehouse.errors import LimitExceeded
from tracehouse.findings.trace_check import Layer
from tracehouse.tensors.tensor import Tensor, split
from workers.limits import TraceLimits
from workers.printed_log import PrintedLog
from workers.processes.exits import malformed_message
from workers.processes.export_progress import ExportProgress

TRACER = "workers.programs.tracer"

_FILES = {"archive", "printouts"}
_SOURCES, _EXPORTED = "sources", "exported"
_STAGES = {Stage.LOADING, Stage.TRACING, Stage.CHECKING, Stage.PRINTING}


@dataclass(frozen=True)
class OfferedCase:
    """Inputs that the tracing child tried, and that are worth trying again."""

    name: str
    method: str
    inputs: list[Tensor]


@dataclass(frozen=True)
class TracerResult:
    """The result of a tracing child: its last message, its files, and the cases that it offered."""

    traced: Traced
    files: Mapping[str, StagedBlob]
    offered: Sequence[OfferedCase]


class TracerProcess:
    """`start` it, `receive` until it has traced or failed, and then take its `result`.

    With `archive`, it checks that one, which was made before, and sends none. `archive_file` is what it may write its
    archive into.
    """

    def __init__(
        self,
        child: Child,
        request: Trace,
        limits: TraceLimits,
        until: float,
        printed_log: PrintedLog,
        stage: Callable[[], StagedBlob],
        archive: StagedBlob | None = None,
        archive_file: int | None = None,
    ) -> None:
        self._child = child
        self._request = request
        self._limits = limits
        self._until = until
        self._printed_log = printed_log
        self._stage = stage
        self._archive_file = archive_file
        self._offered: list[OfferedCase] = []
        self._layer_count = 0
        self.files: dict[str, StagedBlob] = {} if archive is None else {"archive": archive}

    def start(self) -> None:
        self._child.channel.send(self._request.header(), until=self._until)

    def receive(self) -> Progress | LayerDone | File | Case | Traced | ExportDone | FailureReply:
        """Return the next message; the bytes of a file or a case have been taken by then."""
        if time.monotonic() > self._until:  # a child that never stops sending is never waited for
            raise TimeoutError
        header, size = self._receive_header(self._until)
        match message := from_tracer.validate_python(header):
            case Progress() if message.stage not in _STAGES:
                raise MalformedFrame(f"{message.stage.value} is not for it to say")
            case ExportDone() | File(name="exported"):
                raise MalformedFrame(f"{message.kind} came before its last word")
            case File():
                self._take_file(message, size)
            case Case():
                self._take_case(message, size)
            case LayerDone():
                self._take_layer(message.layer)
        return message

    def receive_exports(self, exports: ExportProgress) -> None:
        """Receive what torch.export made, which comes after `Traced`. Raises LimitExceeded."""
        now = time.monotonic()
        export_s = max(0.0, min(self._limits.export_s, (self._until - now) / 2))  # half is left for the verification
        try:
            while not exports.is_complete:
                self._receive_export(exports, now + export_s)
        except TimeoutError:
            raise LimitExceeded(f"it took longer than {export_s:.3g} s", limit="export", limit_s=export_s) from None
        finally:
            if not exports.has_program:
                self.files.pop(_EXPORTED, None)

    def result(self, traced: Traced) -> TracerResult:
        """Return all that the child had to send, if it is complete. Raises ModelCrashed."""
        if not self._answers_request(traced):
            raise malformed_message("it traced something else than it was asked to")
        if self.files.keys() - {_SOURCES, _EXPORTED} != _FILES:
            raise malformed_message(f"of its files, {sorted(self.files)} came")
        return TracerResult(traced, self.files, self._offered)

    def _receive_header(self, until: float) -> tuple[dict[str, JsonValue], int]:
        self._printed_log.flush_until_ready(self._child.channel, until)
        return self._child.channel.receive_header(until)

    def _receive_export(self, exports: ExportProgress, until: float) -> None:
        if time.monotonic() > until:
            raise TimeoutError
        header, size = self._receive_header(until)
        match message := from_tracer.validate_python(header):
            case File(name="exported") if exports.expects_program and _EXPORTED not in self.files:
                self._take_exported(exports, size, until)
            case ExportDone():
                exports.take(message.attempt)
            case _:
                raise MalformedFrame(f"{message.kind} came after its last word")

    def _take_exported(self, exports: ExportProgress, size: int, until: float) -> None:
        """Stage the exported program. One that is too large is left out, and the trace goes on."""
        if size > self._result_bytes_left:
            exports.refuse_program(f"it cannot be kept: the artifact may have {self._limits.result_max_bytes} bytes")
            self._child.channel.copy_body(_NullFile(), until)
            return
        exported = self._stage()
        exported.reserve(size)
        self._child.channel.copy_body(exported, until)
        self.files[_EXPORTED] = exported

    @property
    def _result_bytes_left(self) -> int:
        return self._limits.result_max_bytes - sum(staged.byte_size for staged in self.files.values())

    def _take_file(self, message: File, size: int) -> None:
        name = message.name
        if message.in_file:
            size = self._size_of_archive_file(message, size)
        if name in self.files:
            raise MalformedFrame(f"the file {name!r} came twice")
        if name == "printouts" and size > PRINTOUTS_MAX_BYTES:
            raise _too_large("the printouts", PRINTOUTS_MAX_BYTES)
        if name == _SOURCES and size > SOURCES_MAX_BYTES:
            raise _too_large("the sources", SOURCES_MAX_BYTES)
        if size > self._result_bytes_left:
            raise _too_large("the artifact", self._limits.result_max_bytes)
        self.files[name] = self._stage()
        self.files[name].reserve(size)
        if message.in_file:
            self._copy_archive_file(self.files[name], size)
        else:
            self._child.channel.copy_body(self.files[name], self._until)

    def _size_of_archive_file(self, message: File, body_bytes: int) -> int:
        if self._archive_file is None or message.name != "archive" or body_bytes:
            raise MalformedFrame(f"the file {message.name!r} has another place")
        return os.fstat(self._archive_file).st_size

    def _copy_archive_file(self, staged: StagedBlob, size: int) -> None:
        """Copy what the file has now: whatever the child writes later, nobody sees."""
        assert self._archive_file is not None  # as its size was asked for
        step = memoryview(bytearray(min(size, MIB)))
        while left := size - staged.byte_size:
            if time.monotonic() > self._until:
                raise TimeoutError
            read = os.preadv(self._archive_file, [step[:left]], staged.byte_size)
            if not read:
                raise MalformedFrame("its archive became shorter")
            staged.write(step[:read])
        if not self._request.spec.options.exportability:  # the exports of the child load it once more
            memory_file.empty(self._archive_file)

    def _take_case(self, case: Case, size: int) -> None:
        bytes_before = sum(len(tensor.data) for before in self._offered for tensor in before.inputs)
        if len(self._offered) == CASES_MAX or size > CASES_MAX_BYTES - bytes_before:
            raise MalformedFrame("it offers more cases than it may")
        if size != sum(spec.byte_size for spec in case.inputs):
            raise MalformedFrame("the bytes that came are not those of the case's inputs")
        body = self._child.channel.receive_body(self._until)
        self._offered.append(OfferedCase(case.name, case.method, split(case.inputs, body)))

    def _take_layer(self, layer: Layer) -> None:
        """Raise MalformedFrame for too many layers or a long one: each goes to whoever watches, and is stored."""
        self._layer_count += 1
        if self._layer_count > LAYERS_MAX or layer.method not in self._request.spec.calls or cut_layer(layer) != layer:
            raise MalformedFrame("it tells of more layers than it may")

    def _answers_request(self, traced: Traced) -> bool:
        spec = self._request.spec
        answer = (traced.entrypoint, set(traced.contract.methods), traced.check.tolerance)
        expected = (spec.source.entrypoint, set(spec.calls), spec.check.tolerance)
        return answer == expected and traced.form in _possible_forms(self._request)


def _possible_forms(request: Trace) -> set[Form]:
    """Return the forms that the artifact can have: a source may give a ScriptModule, which is left as it is."""
    if request.spec.source.archive is not None:
        return {"uploaded"}
    if request.conversion.mode == "script":
        return {"scripted"}
    return {"scripted", "mixed" if request.conversion.scripted else "traced"}


class _NullFile:
    """A file that discards what is written, for a body that nobody wants."""

    def write(self, data: memoryview, /) -> None:
        pass


def _too_large(what: str, most: int) -> LimitExceeded:
    return LimitExceeded(f"{what} may have {most} bytes, and has more", limit="result", limit_bytes=most)
