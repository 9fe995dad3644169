"""The protocol's routes about the server."""

from importlib.metadata import version

from fastapi import APIRouter

from service.api.context import ContextDep
from service.api.health import PROTOCOL_LIVE, PROTOCOL_READY, READY_ERRORS, readyz
from service.api.problems import problem_responses
from tracehouse.frozen import Frozen

EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "parameters", "statistics")

router = APIRouter(tags=["Open Inference Protocol"])


class ServerMetadata(Frozen):
    """The server, and the extensions of the protocol that it has."""

    name: str = "tracehouse"
    version: str
    extensions: list[str]


class ServerLive(Frozen):
    """The process answers."""

    live: bool = True


class ServerReady(Frozen):
    """The service can do its work."""

    live: bool = True
    ready: bool = True


@router.get("/v2", summary="Describe the server")
async def server_metadata() -> ServerMetadata:
    """Says nothing about models, and so needs no key."""
    return ServerMetadata(version=version("tracehouse"), extensions=[*EXTENSIONS])


@router.get(PROTOCOL_LIVE, summary="Check that the process is alive, in the protocol's form")
async def server_live() -> ServerLive:
    """Does what `GET /livez` does."""
    return ServerLive()


@router.get(
    PROTOCOL_READY,
    summary="Check that the service can do its work, in the protocol's form",
    responses=problem_responses(*READY_ERRORS),
)
def server_ready(context: ContextDep) -> ServerReady:
    """Does what `GET /readyz` does."""
    readyz(context)
    return ServerReady()
