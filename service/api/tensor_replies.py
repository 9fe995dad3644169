"""Tensor replies: which form a client wants the answer in, and the answer in another form than JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from fastapi import Request, Response

from service.api.accept import accepted
from service.api.http.body import copy_aside
from service.api.inference_forms import BY_MEDIA_TYPE, REPLY_TYPES, Form
from service.domain.errors import NotAcceptable
from service.serving.inference import InferenceResult
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.structure import complex_tensors_of
from tracehouse.tensors.npy import can_be_npy, write_npy
from tracehouse.tensors.npz import iter_npz_bytes
from tracehouse.tensors.tensor import Datatype, Tensor
from tracehouse.tensors.tensor_file import iter_file_bytes

# An .npz archive has 32 bits for its sizes and offsets; this leaves room for all that is no value.
_NPZ_MAX_BYTES = 2**31

MODEL_HEADER = "Inference-Model"
VERSION_HEADER = "Inference-Model-Version"
SEED_HEADER = "Inference-Seed"
ID_HEADER = "Inference-Id"
OUTPUT_HEADER = "Inference-Output"
DATATYPE_HEADER = "Inference-Datatype"
SHAPE_HEADER = "Inference-Shape"


def wanted_forms(request: Request) -> list[str]:
    """Return the media types that the reply may have, the best first. Raises NotAcceptable if there is none."""
    accept = ",".join(request.headers.getlist("accept"))
    wanted = forms_of(accept)
    if not wanted:
        raise NotAcceptable(f"this route replies {', '.join(REPLY_TYPES)}", actual=accept[:80], supported=REPLY_TYPES)
    return wanted


@lru_cache(maxsize=256)
def forms_of(accept: str) -> list[str]:
    """Return the media types that a client takes, the best first."""
    return accepted(accept, REPLY_TYPES)


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """An output that is asked for."""

    name: str
    datatype: Datatype
    is_complex: bool


def wanted_outputs(method: MethodContract, tensors: Sequence[Tensor], names: Sequence[str]) -> list[WantedOutput]:
    """Return what the outputs will be on these inputs, if the contract takes them."""
    given = {tensor.name: tensor.datatype for tensor in tensors}
    specs = {spec.name: spec for spec in method.at_ranks(tensors).outputs}
    complex_names = {*complex_tensors_of(method.returns)}
    return [
        WantedOutput(name, given.get(spec.datatype_of or "", spec.datatype), name in complex_names)
        for name in names
        for spec in (specs[name],)
    ]


def choose_form(wanted: Sequence[str], outputs: Sequence[WantedOutput]) -> str:
    """Return the first of the media types that can have these outputs. Raises NotAcceptable."""
    obstacles = []
    for kind in wanted:
        obstacle = _obstacle(BY_MEDIA_TYPE[kind], outputs)
        if obstacle is None:
            return kind
        obstacles.append((kind, *obstacle))
    kind, detail, remedy = obstacles[0]
    raise NotAcceptable(
        f"{kind} {detail}", actual=kind, outputs=[one.name for one in outputs], supported=REPLY_TYPES, remedy=remedy
    )


def _obstacle(form: Form, outputs: Sequence[WantedOutput]) -> tuple[str, str] | None:
    """Return why the form cannot have these outputs, and what to do about it; None if it can."""
    if form is Form.JSON:
        return None
    if form.has_one_tensor and len(outputs) != 1:
        return (
            f"has one tensor, and there are {len(outputs)}",
            f"Name one with `output` in the query, or accept {Form.SAFETENSORS} or {Form.NPZ}.",
        )
    for one in outputs:
        kind = f"complex {one.datatype}" if one.is_complex else one.datatype.value
        is_numpy = form in (Form.NPY, Form.NPZ)
        if is_numpy and not can_be_npy(one.datatype, is_complex=one.is_complex):
            return f"has no {kind}, which {one.name!r} is", f"Accept {Form.JSON}, or leave the output out."
        if not is_numpy and one.is_complex:
            return (
                f"has no {kind}, which {one.name!r} is",
                f"Accept {Form.NPZ}, or {Form.JSON}, which has its parts in the last dim.",
            )
    return None


async def bytes_reply(
    request: Request, kind: str, answer: InferenceResult, request_id: str | None, headers: Mapping[str, str]
) -> Response:
    """Return the reply in another form than JSON; what stands beside its tensors is in its headers."""
    byte_size = sum(len(tensor.data) for tensor in answer.outputs)
    if BY_MEDIA_TYPE[kind] is Form.NPZ and byte_size >= _NPZ_MAX_BYTES:
        raise NotAcceptable(
            f"the answer has {byte_size} bytes, and {kind} has less than {_NPZ_MAX_BYTES}",
            actual=kind, supported=REPLY_TYPES, remedy=f"Accept {Form.SAFETENSORS}.",
        )  # fmt: skip
    content = await copy_aside(request, byte_size, write_form, BY_MEDIA_TYPE[kind], answer)
    described = {**headers, **describe_in_headers(kind, answer, request_id)}
    return Response(content, media_type=kind, headers=described)


def write_form(form: Form, answer: InferenceResult) -> bytes:
    """Return the answer's tensors in another form than JSON."""
    tensors = [(tensor, tensor.name in answer.complex_outputs) for tensor in answer.outputs]
    match form:
        case Form.SAFETENSORS:
            # Large items first: so each tensor is aligned.
            ordered = sorted(answer.outputs, key=lambda one: -one.datatype.item_bytes)
            return b"".join(iter_file_bytes([(one.name, one) for one in ordered]))
        case Form.NPZ:
            return b"".join(iter_npz_bytes(tensors))
        case Form.NPY:
            return write_npy(tensors[0][0], is_complex=tensors[0][1])
        case Form.BYTES:
            return bytes(answer.outputs[0].data)
        case _:
            raise AssertionError(f"{form} is written elsewhere")


def describe_in_headers(kind: str, answer: InferenceResult, request_id: str | None) -> dict[str, str]:
    """Return the headers that say what stands beside the tensors of such a reply."""
    headers = {MODEL_HEADER: answer.model_name, VERSION_HEADER: str(answer.model_version)}
    if answer.seed is not None:
        headers[SEED_HEADER] = str(answer.seed)
    if request_id is not None:
        headers[ID_HEADER] = quote(request_id, safe="")
    if BY_MEDIA_TYPE[kind].has_one_tensor:
        only = answer.outputs[0]
        headers[OUTPUT_HEADER] = quote(only.name)
        headers[DATATYPE_HEADER] = only.datatype.value
        headers[SHAPE_HEADER] = ",".join(map(str, only.shape))
    return headers
