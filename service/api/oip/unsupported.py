"""Routes of Triton's that this service does not have: clients are told so in words that they show."""

from fastapi import APIRouter

from service.api.http.access import MayInfer
from service.domain.errors import NotSupported

router = APIRouter(include_in_schema=False)

_PATHS = {
    "traces of single requests": ("/v2/trace/setting", "/v2/models/{name}/trace/setting"),
    "settings of its log": ("/v2/logging",),
    "shared memory": ("/v2/systemsharedmemory/{rest:path}", "/v2/cudasharedmemory/{rest:path}"),
    "generation of texts": ("/v2/models/{name}/generate", "/v2/models/{name}/generate_stream"),
}


def _refuse(what: str) -> None:
    async def refuse(_: MayInfer) -> None:
        raise NotSupported(f"over this protocol, the service has no {what}")

    for path in _PATHS[what]:
        router.add_api_route(path, refuse, methods=["GET", "POST"], name=f"no {what}: {path}")


for _what in _PATHS:
    _refuse(_what)
