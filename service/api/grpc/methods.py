"""The methods of the protocol, by the functions that its routes over HTTP use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TypeVar

from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError, Message
from pydantic import BaseModel

from service.api import health
from service.api.grpc import infer_reply, infer_request
from service.api.grpc import open_inference_pb2 as messages
from service.api.grpc.infer_request import MessageParts
from service.api.grpc.request import Request
from service.api.oip.metadata import ModelConfig
from service.api.oip.models import metadata_of, statistics_of
from service.api.oip.repository import index_of, no_load_parameters, statistics_of_all
from service.api.oip.request import expect_by_contract
from service.api.oip.server import EXTENSIONS
from service.domain.api_key import Scope
from service.domain.errors import MalformedMessage, NotSupported, PayloadTooLarge, Unavailable
from service.serving.inference import InferenceResult, ServedModel

M = TypeVar("M", bound=Message)

SERVICE = "inference.GRPCInferenceService"
# Bytes of a message that names a model.
_SMALL_MAX_BYTES = 2**16
# Over HTTP, tensors may stand behind the JSON; here, they are beside the message.
_EXTENSIONS = [name for name in EXTENSIONS if name != "binary_tensor_data"]


@dataclass(frozen=True, slots=True)
class Method:
    """What answers a request, and which scope its key needs; None: anybody may call it.

    A call of a stream has any number of requests, each of which is answered.
    """

    respond: Callable[[Request], Awaitable[bytes]]
    scope: Scope | None = Scope.INFER
    is_stream: bool = False


async def server_live(_: Request) -> bytes:
    return messages.ServerLiveResponse(live=True).SerializeToString()


async def server_ready(request: Request) -> bytes:
    try:
        await request.run(health.readyz, request.context)
    except Unavailable:
        return messages.ServerReadyResponse(ready=False).SerializeToString()
    return messages.ServerReadyResponse(ready=True).SerializeToString()


async def server_metadata(_: Request) -> bytes:
    reply = messages.ServerMetadataResponse(name="tracehouse", version=version("tracehouse"), extensions=_EXTENSIONS)
    return reply.SerializeToString()


async def model_ready(request: Request) -> bytes:
    asked = await _read(request, messages.ModelReadyRequest)
    await _find(request, asked.name, asked.version)
    return messages.ModelReadyResponse(ready=True).SerializeToString()


async def model_metadata(request: Request) -> bytes:
    asked = await _read(request, messages.ModelMetadataRequest)
    return _write(messages.ModelMetadataResponse(), metadata_of(await _find(request, asked.name, asked.version)))


async def model_config(request: Request) -> bytes:
    asked = await _read(request, messages.ModelConfigRequest)
    found = ModelConfig.of(metadata_of(await _find(request, asked.name, asked.version)))
    config = ParseDict(found.model_dump(mode="json"), messages.ModelConfig())
    return messages.ModelConfigResponse(config=config).SerializeToString()


async def model_statistics(request: Request) -> bytes:
    asked = await _read(request, messages.ModelStatisticsRequest)
    if asked.name:
        found = statistics_of(request.context, await _find(request, asked.name, asked.version))
    else:
        statistics = request.context.inference.statistics
        found = await request.run(statistics_of_all, request.context.store, request.tenant, statistics)
    return await request.run(_write, messages.ModelStatisticsResponse(), found)


async def repository_index(request: Request) -> bytes:
    asked = await _read(request, messages.RepositoryIndexRequest)
    return await request.run(_write_index, request, asked.ready)


async def load_model(request: Request) -> bytes:
    asked = await _read(request, messages.RepositoryModelLoadRequest)
    if asked.parameters:
        raise no_load_parameters()
    await request.context.inference.prepare(await _find(request, asked.model_name, ""))
    return messages.RepositoryModelLoadResponse().SerializeToString()


async def unload_model(request: Request) -> bytes:
    asked = await _read(request, messages.RepositoryModelUnloadRequest)
    await request.context.inference.release(await _find(request, asked.model_name, ""))
    return messages.RepositoryModelUnloadResponse().SerializeToString()


async def model_infer(request: Request) -> bytes:
    return await _infer(request, infer_reply.write)


async def infer_in_stream(request: Request) -> bytes:
    return await _infer(request, infer_reply.write_streamed)


async def _infer(request: Request, write: Callable[[InferenceResult, str | None], bytes]) -> bytes:
    parts = infer_request.split(await request.read())
    served = await _find(request, parts.model, parts.version)
    _check_size(request, parts, served)
    expect = partial(expect_by_contract, served.all_contracts)
    raw_sizes = [*map(len, parts.raw)]
    asked, typed = await request.parse_aside(len(parts.head), infer_request.parse, parts.head, raw_sizes, expect)
    data = parts.raw or [memoryview(each) for each in typed]
    tensors = await request.copy_aside(sum(map(len, data)), asked.read_each, data)
    answer = await request.context.inference.answer(
        served,
        asked.method,
        tensors,
        [*asked.outputs],
        seed=asked.parameters.seed,
        timeout_s=request.timeout_s(asked.parameters.timeout_s),
    )
    byte_size = sum(len(tensor.data) for tensor in answer.outputs)
    request.hold_reply(byte_size)
    return await request.copy_aside(byte_size, write, answer, asked.id)


def refuse_unknown(path: str) -> Method:
    """Return a method for a path that the service does not have."""

    async def refuse(_: Request) -> bytes:
        raise NotSupported(f"over gRPC, the service has no {path[:80]}")

    return Method(refuse)


METHODS = {
    f"/{SERVICE}/{name}": method
    for name, method in {
        "ServerLive": Method(server_live, None),
        "ServerReady": Method(server_ready, None),
        "ServerMetadata": Method(server_metadata, None),
        "ModelReady": Method(model_ready),
        "ModelMetadata": Method(model_metadata),
        "ModelConfig": Method(model_config),
        "ModelStatistics": Method(model_statistics),
        "ModelInfer": Method(model_infer),
        "ModelStreamInfer": Method(infer_in_stream, is_stream=True),
        "RepositoryIndex": Method(repository_index),
        "RepositoryModelLoad": Method(load_model),
        "RepositoryModelUnload": Method(unload_model),
    }.items()
}


async def _read(request: Request, kind: type[M]) -> M:
    """Read a small message. Raises PayloadTooLarge, MalformedMessage, and what `Request.read` raises."""
    text = await request.read()
    if len(text) > _SMALL_MAX_BYTES:
        raise _too_large(_SMALL_MAX_BYTES)
    try:
        return kind.FromString(text)
    except DecodeError as error:
        raise MalformedMessage(f"the message is no {kind.DESCRIPTOR.name}") from error


async def _find(request: Request, name: str, version: str) -> ServedModel:
    """Raises what `Inference.find` raises."""
    return await request.context.inference.find(request.tenant, f"{name}:{version}" if version else name, None)


def _check_size(request: Request, parts: MessageParts, served: ServedModel) -> None:
    """Raise PayloadTooLarge where a body over HTTP with the same tensors would be too large."""
    limits = request.context.limits
    if len(parts.head) > limits.request_max_bytes:
        raise _too_large(limits.request_max_bytes)
    most_bytes = served.body_max_bytes(limits.request_max_bytes, limits.upload_max_bytes)
    if len(parts.head) + sum(map(len, parts.raw)) > most_bytes:
        raise _too_large(most_bytes)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the message may have {max_bytes} bytes", limit=max_bytes)


def _write(message: Message, members: BaseModel) -> bytes:
    """Write what the routes over HTTP reply as the message that has the same members."""
    return ParseDict(members.model_dump(mode="json"), message, ignore_unknown_fields=True).SerializeToString()


def _write_index(request: Request, only_ready: bool) -> bytes:
    entries = index_of(request.context.store, request.tenant, only_ready=only_ready)
    models = [messages.RepositoryIndexResponse.ModelIndex(**entry.model_dump()) for entry in entries]
    return messages.RepositoryIndexResponse(models=models).SerializeToString()
