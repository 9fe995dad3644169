"""Tensor bodies: the tensors of a request in another form than JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request

from service.api.http import held
from service.api.http.body import copy_aside, go_on_aside, media_type, read_text
from service.api.inference_forms import BY_MEDIA_TYPE, REQUEST_TYPES, Form
from service.api.inference_json import Expected, each_once, unknown_input
from service.api.input_tensor import ExpectedInput, only_input
from service.domain.errors import PayloadTooLarge, UnsupportedMediaType
from tracehouse.errors import InvalidRequest, InvalidTensor
from tracehouse.tensors.foreign_tensor_file import read_tensor_file
from tracehouse.tensors.npy import read_npy
from tracehouse.tensors.npz import NpzEntry, list_entries
from tracehouse.tensors.raw import read_raw
from tracehouse.tensors.tensor import Datatype, Tensor


def form_of(request: Request) -> Form:
    """Return the form of a request, which is JSON if it has no content type. Raises UnsupportedMediaType."""
    if "content-type" not in request.headers:
        return Form.JSON
    kind, _ = media_type(request)
    if kind not in BY_MEDIA_TYPE:
        raise UnsupportedMediaType(
            f"this route takes {', '.join(REQUEST_TYPES)}", actual=kind[:80], supported=REQUEST_TYPES
        )
    return BY_MEDIA_TYPE[kind]


@dataclass(frozen=True, slots=True)
class BytesLayout:
    """What a request says of the bytes of its one tensor, in its query."""

    datatype: Datatype | None = None
    shape: tuple[int, ...] | None = None


async def read_tensors(
    request: Request, form: Form, most_bytes: int, expected: Expected, layout: BytesLayout
) -> list[Tensor]:
    """Read a body of at most so many bytes, packed or not, in another form than JSON.

    Raises MalformedTensors, InvalidTensor, InvalidRequest, UnexpectedInput, PayloadTooLarge and what `read_text` does.
    """
    body = memoryview(await read_text(request, most_bytes))
    if form is Form.NPZ:
        entries = await go_on_aside(request, len(body), list_entries, body)
        check_names(entries, expected)
        unpacked = _unpacked_bytes(entries, most_bytes)
        held.hold_body(request, len(body) + unpacked)
        tensors = await go_on_aside(request, len(body) + unpacked, _read_entries, entries)
    else:
        aside = copy_aside if form is Form.BYTES else go_on_aside  # the others have a head that is parsed
        tensors = await aside(request, len(body), _read_plain, form, body, expected, layout)
    check_names(tensors, expected)
    return tensors


def read_small(form: Form, body: memoryview, expected: Expected) -> list[Tensor] | None:
    """Read a small body at once; None if it has to be unpacked. Raises what `read_tensors` does."""
    if form is Form.NPZ:
        entries = list_entries(body)
        if any(entry.is_deflated for entry in entries):
            return None
        check_names(entries, expected)
        tensors = _read_entries(entries)
    else:
        tensors = _read_plain(form, body, expected, BytesLayout())
    check_names(tensors, expected)
    return tensors


def _read_plain(form: Form, body: memoryview, expected: Expected, layout: BytesLayout) -> list[Tensor]:
    match form:
        case Form.SAFETENSORS:
            return read_tensor_file(body)
        case Form.NPY:
            return [read_npy(only_input(expected.inputs).spec.name, body)]
        case Form.BYTES:
            return [read_bytes(body, only_input(expected.inputs), layout)]
        case _:
            raise AssertionError(f"{form} is read elsewhere")


def check_names(named: Sequence[Tensor | NpzEntry], expected: Expected) -> None:
    """Raise UnexpectedInput for a name that no input has, or that stands twice."""
    for one in each_once(iter(named)):
        if one.name not in expected.inputs:
            raise unknown_input(one.name, expected.inputs)


def read_bytes(data: memoryview, only: ExpectedInput, layout: BytesLayout) -> Tensor:
    """Return the one tensor whose values are all of a body. What its bytes do not tell, the request must.

    Raises InvalidTensor and InvalidRequest.
    """
    spec = only.spec
    datatype = layout.datatype
    if datatype is None:
        if len(spec.accepted_datatypes) > 1:
            raise invalid_query(
                "datatype", f"input {spec.name!r} may be {' or '.join(spec.accepted_datatypes)}: say which it is"
            )
        datatype = spec.datatype
    shape = layout.shape
    if shape is None:
        count, rest = divmod(len(data), datatype.item_bytes)
        dims = only.dims_of(count)
        shape = tuple(dim for dim in dims if dim is not None)
        if rest or only.others or len(shape) < len(dims):
            raise InvalidTensor(
                f"{len(data)} bytes do not tell the shape of input {spec.name!r}, which is {datatype} "
                f"{list(spec.shape)}",
                input=spec.name, actual=len(data), remedy="Say the shape in the query: `shape=2,3`.",
            )  # fmt: skip
    return read_raw(spec.name, datatype, shape, data)


def invalid_query(parameter: str, detail: str) -> InvalidRequest:
    """Return the error for a parameter in the query."""
    return InvalidRequest(f"{parameter}: {detail}", errors=[{"in": "query", "parameter": parameter, "detail": detail}])


def _read_entries(entries: Sequence[NpzEntry]) -> list[Tensor]:
    return [entry.read() for entry in entries]


def _unpacked_bytes(entries: Sequence[NpzEntry], most_bytes: int) -> int:
    """Return how many bytes are unpacked beside the body. Raises PayloadTooLarge."""
    unpacked = sum(entry.byte_size for entry in entries if entry.is_deflated)
    if unpacked > most_bytes:
        raise PayloadTooLarge(f"unpacked, the body may have {most_bytes} bytes", limit=most_bytes)
    return unpacked
