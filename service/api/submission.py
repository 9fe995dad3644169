"""A submission: the body of `POST /trace`, as JSON or as multipart whose files are staged while they arrive."""

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fastapi import Request
from multipart import MultipartError, MultipartSegment, PushMultipartParser
from pydantic import JsonValue, TypeAdapter, ValidationError

from service.api.examples import LINEAR_REQUEST, LINEAR_UPLOAD
from service.api.http.body import SMALL_BYTES, media_type, parse_json, read_batches, read_json_text
from service.api.http.in_turn import go_on, parse_submission
from service.api.problems import ERRORS_MAX, invalid_body, json_pointer
from service.domain.errors import (
    FileNotUploaded,
    FileNotUsed,
    InvalidFileName,
    MalformedMultipart,
    PayloadTooLarge,
    UnsupportedMediaType,
    UploadTruncated,
)
from service.storage.allowances import Allowance
from service.storage.blobs import Blobs, StagedBlob
from tracehouse.artifact.blob import BlobRef
from tracehouse.errors import InvalidRequest
from tracehouse.spec.example_inputs import CallInputs, FileTensor, TupleInput
from tracehouse.spec.image_reading import IMAGE_SUFFIXES
from tracehouse.spec.trace_spec import FILES_MAX, FileName, TraceSpec

# The part `request`, and one file too many, which is then refused by its name.
PARTS_MAX = FILES_MAX + 2

_INPUTS = (".safetensors", ".npz", ".pt")
# The file name suffixes, in small letters, that the tracing child can read, by the use of the file.
SUFFIXES = {
    "source": (".py", ".zip"),
    "archive": (".pt", ".pth"),
    "weights": (".safetensors", ".pt", ".pth"),
    "inputs": _INPUTS,
    "samples": (*_INPUTS, *IMAGE_SUFFIXES),
}

REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "JSON if everything is inline, multipart if files come with it.",
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/TraceSpec"},
                "example": LINEAR_REQUEST,
            },
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["request"],
                    "additionalProperties": False,
                    "properties": {
                        "request": {"$ref": "#/components/schemas/TraceSpec"},
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "The files that the request names, under those names.",
                        },
                    },
                },
                "encoding": {"request": {"contentType": "application/json"}},
                "example": {"request": LINEAR_UPLOAD},
            },
        },
    }
}

_file_name: TypeAdapter[str] = TypeAdapter(FileName)
Location = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Submission:
    """The trace request, and the uploaded files by their names in it.

    `sync` brings the files to the disk, which may take long, and `keep` makes them blobs.
    """

    spec: TraceSpec
    files: dict[str, BlobRef]
    sync: Callable[[], object]
    keep: Callable[[], object]


@asynccontextmanager
async def receive_submission(
    request: Request,
    blobs: Blobs,
    allowance: Allowance,
    *,
    request_max_bytes: int,
    upload_max_bytes: int,
    earlier: Mapping[str, BlobRef] = MappingProxyType({}),
) -> AsyncIterator[Submission]:
    """Receive a submission. If it is refused, cut off or not kept, nothing of it stays on disk.

    An upload is taken from the allowance before it is written. `earlier` are files that it may name without uploading
    them. Raises StorageQuotaExceeded, and what is wrong with it.
    """
    kind, options = media_type(request)
    if kind == "application/json":
        text = await read_json_text(request, request_max_bytes)
        spec = await _parse_aside(request, text, [], [*earlier])
        yield Submission(spec, _named(spec, earlier), sync=_nothing, keep=_nothing)
        return
    if kind != "multipart/form-data":
        supported = ["application/json", "multipart/form-data"]
        raise UnsupportedMediaType(f"this route takes {' or '.join(supported)}", actual=kind[:80], supported=supported)
    upload = Upload(blobs, options.get("boundary", ""), request_max_bytes, allowance)
    try:
        batches = read_batches(request, upload_max_bytes, allowance.reach, kept_bytes=lambda: len(upload.request))
        async for batch in batches:
            await go_on(request, upload.feed, batch)
        text = await go_on(request, upload.finish)
        spec = await _parse_aside(request, text, [*upload.files], [*earlier])
        yield Submission(spec, _named(spec, earlier) | upload.files, sync=upload.sync, keep=upload.keep)
    finally:
        await go_on(request, upload.close)


class Upload:
    """One multipart body: a part `request` and up to `FILES_MAX` parts `files`, in any order."""

    def __init__(self, blobs: Blobs, boundary: str, request_max_bytes: int, allowance: Allowance) -> None:
        try:
            self._parser = PushMultipartParser(boundary, max_segment_count=PARTS_MAX)
        except MultipartError as error:
            raise MalformedMultipart(f"the content type has no usable boundary: {error}") from error
        self._blobs = blobs
        self._allowance = allowance
        self._request_max_bytes = request_max_bytes
        self.request = bytearray()  # the part of that name
        self._has_request = False
        self._files: dict[str, StagedBlob] = {}
        self._file: StagedBlob | None = None  # the file that is arriving; None during the part `request`
        self._parts = 0

    def feed(self, batch: bytes) -> None:
        try:
            for event in self._parser.parse(batch):
                if isinstance(event, MultipartSegment):
                    self._begin(event)
                elif event is not None:
                    self._write(event)
        except MultipartError as error:
            # The first argument alone: a second one is what Python raised.
            raise MalformedMultipart(error.args[0], part=self._parts) from error

    @property
    def files(self) -> dict[str, BlobRef]:
        """The uploaded files by their names."""
        return {name: staged.blob for name, staged in self._files.items()}

    def finish(self) -> bytes:
        """End the body and return its part `request`. Raises MalformedMultipart or UploadTruncated."""
        try:
            self._parser.close()
        except MultipartError as error:
            if self._parts == 0:
                raise MalformedMultipart("the boundary was not found in the body") from error
            raise UploadTruncated(f"the body ended within part {self._parts}", part=self._parts) from error
        if not self._has_request:
            raise MalformedMultipart("there is no part named request, which says what to do with the files")
        return bytes(self.request)

    def close(self) -> None:
        """Discard the files that were not kept."""
        for staged in self._files.values():
            staged.discard()

    def sync(self) -> None:
        for staged in self._files.values():
            staged.sync()

    def keep(self) -> None:
        self._allowance.hold_files()
        for staged in self._files.values():
            staged.commit()

    def _begin(self, part: MultipartSegment) -> None:
        self._parts += 1
        match part.name:
            case "request" if not self._has_request:
                self._has_request, self._file = True, None
            case "request":
                raise MalformedMultipart("there are two parts named request", part=self._parts)
            case "files":
                name = _check_name(part.filename)
                if name in self._files:
                    raise MalformedMultipart(f"two files are named {name!r}", part=self._parts, file=name)
                if len(self._files) == FILES_MAX:
                    raise InvalidRequest(f"a request has at most {FILES_MAX} files", limit=FILES_MAX)
                self._file = self._files[name] = self._blobs.stage()
            case _:
                raise MalformedMultipart(
                    "a part is named request or files", part=self._parts, actual=(part.name or "")[:80]
                )

    def _write(self, data: bytes | bytearray) -> None:
        if self._file is not None:
            self._file.write(data)
        elif len(self.request) + len(data) > self._request_max_bytes:
            raise PayloadTooLarge(
                f"the part request may have {self._request_max_bytes} bytes", limit=self._request_max_bytes
            )
        else:
            self.request += data


def _nothing() -> None:
    """Do what a submission without files needs."""


def _check_name(name: str | None) -> str:
    if name is None:
        raise InvalidFileName("a part named files has no file name")
    try:
        return _file_name.validate_python(name)
    except ValidationError as error:
        raise InvalidFileName(error.errors()[0]["msg"], file=name[:80]) from error


@dataclass(frozen=True, slots=True)
class _Reference:
    """A place in the request that names a file."""

    at: Location
    file: str
    use: str

    def error(self, detail: str, body: JsonValue) -> dict[str, str]:
        return {"pointer": json_pointer(self.at, body), "detail": detail}


async def _parse_aside(request: Request, text: bytes, uploaded: Collection[str], earlier: Collection[str]) -> TraceSpec:
    """Parse few bytes here, and more where nothing that is answered waits for it. Raises what `_parse` raises."""
    if len(text) <= SMALL_BYTES:
        return _parse(text, uploaded, earlier)
    return await parse_submission(request, _parse, text, uploaded, earlier)


def _parse(text: bytes, uploaded: Collection[str], earlier: Collection[str]) -> TraceSpec:
    return parse_spec(parse_json(text), uploaded, earlier)


def _named(spec: TraceSpec, files: Mapping[str, BlobRef]) -> dict[str, BlobRef]:
    """Return those of the files that the request names."""
    return {each.file: files[each.file] for each in _references(spec) if each.file in files} if files else {}


def parse_spec(body: JsonValue, uploaded: Collection[str], earlier: Collection[str] = ()) -> TraceSpec:
    """Return what the body of a trace request says, if all files that it names were uploaded, and no others.

    `earlier` are the names of files that need not be uploaded. Raises InvalidRequest, FileNotUploaded and FileNotUsed.
    """
    try:
        spec = TraceSpec.model_validate(body)
    except ValidationError as error:
        raise invalid_body(error, body, TraceSpec) from error
    references = list(_references(spec))
    if misfits := [each for each in references if not each.file.lower().endswith(SUFFIXES[each.use])]:
        detail = f"a file for {misfits[0].use} ends in {', '.join(SUFFIXES[misfits[0].use])}"
        raise InvalidRequest(detail, errors=[each.error(detail, body) for each in misfits[:ERRORS_MAX]])
    if missing := [each for each in references if each.file not in uploaded and each.file not in earlier]:
        detail = f"{missing[0].file[:80]!r} was not uploaded"
        errors = [each.error(f"{each.file[:80]!r} was not uploaded", body) for each in missing[:ERRORS_MAX]]
        raise FileNotUploaded(detail, file=missing[0].file[:80], uploaded=sorted(uploaded)[:ERRORS_MAX], errors=errors)
    if unused := sorted(set(uploaded) - {each.file for each in references}):
        raise FileNotUsed(f"the request does not refer to {unused[0]!r}", files=unused[:ERRORS_MAX])
    return spec


def _references(spec: TraceSpec) -> Iterator[_Reference]:
    if spec.source.file is not None:
        yield _Reference(("source", "file"), spec.source.file, "source")
    if spec.source.archive is not None:
        yield _Reference(("source", "archive"), spec.source.archive, "archive")
    if spec.weights is not None:
        yield _Reference(("weights", "file"), spec.weights.file, "weights")
    for index, sample in enumerate(spec.check.samples):
        yield _Reference(("check", "samples", index, "file"), sample.file, "samples")
    calls: list[tuple[Location, CallInputs | TraceSpec]] = [((), spec)]
    calls += [(("methods", name), call) for name, call in spec.methods.items()]
    calls += [(("check", "check_inputs", index), call) for index, call in enumerate(spec.check.check_inputs)]
    for at, call in calls:
        yield from _references_in(call.example_inputs, (*at, "example_inputs"))
        yield from _references_in(call.example_kwarg_inputs, (*at, "example_kwarg_inputs"))


def _references_in(tree: Any, at: Location) -> Iterator[_Reference]:
    match tree:
        case FileTensor():
            yield _Reference((*at, "file"), tree.file, "inputs")
        case TupleInput():
            yield from _references_in(tree.tuple, (*at, "tuple"))
        case list():
            for index, item in enumerate(tree):
                yield from _references_in(item, (*at, index))
        case dict():
            for key, item in tree.items():
                yield from _references_in(item, (*at, key))
