"""The API's documentation: Swagger UI, whose files the service has itself, so that it works without the internet."""

import asyncio
import secrets
from importlib.resources import files
from typing import Any

import orjson
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel

from service.api.aliases import AliasTarget
from service.api.api_keys import NewKey
from service.api.context import ContextDep
from service.api.further_checks import FurtherBudget
from service.api.models import ModelChange, PromotionTarget
from service.api.problems import Problem
from service.api.tenants import OwnQuotas
from service.api.webhooks import NewWebhook
from tracehouse.artifact.manifest import Printout
from tracehouse.artifact.signature import Envelope
from tracehouse.spec.trace_spec import TraceSpec

ASSETS = files("fastapi_swagger.resources")
OPENAPI_PATH = "/openapi.json"

DESCRIPTION = """\
You submit PyTorch model code, weights and example inputs. Tracehouse traces the model, checks the trace against the
model, keeps the artifact with printouts of its graph, and serves it.

**Try it from top to bottom:** `POST /trace` has a small model filled in. Send it as it is, then follow the paths in the
reply's `links`. The routes under *Models* and *Inference* are filled in with the model's name, `linear`.

If the service asks for an API key, enter yours under *Authorize* first.

Every error is an `application/problem+json` document: `code` says what is wrong, `fault` who has to act.
"""

# FastAPI does not see these in a signature: routes read such bodies themselves, or reply in several forms.
_FURTHER_SCHEMAS: tuple[type[BaseModel], ...] = (
    TraceSpec,
    FurtherBudget,
    AliasTarget,
    ModelChange,
    PromotionTarget,
    OwnQuotas,
    NewKey,
    NewWebhook,
    Envelope,
    Problem,
    Printout,
)

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tracehouse API</title>
<link rel="icon" type="image/png" href="/docs/assets/favicon-32x32.png">
<link rel="stylesheet" href="/docs/assets/swagger-ui.css">
</head>
<body>
{warning}<div id="swagger-ui"></div>
<script src="/docs/assets/swagger-ui-bundle.js"></script>
<script nonce="{nonce}">
SwaggerUIBundle({{
  url: "{openapi}",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  validatorUrl: null,
}});
</script>
</body>
</html>
"""

_UNCONFINED = """\
<style nonce="{nonce}">
[role=alert] {{ margin: 0; padding: 1em; background: #b00020; color: white; font-family: sans-serif }}
</style>
<p role="alert">
<strong>No isolation.</strong> Submitted code runs as this service's user and can do whatever that user can.
</p>
"""

router = APIRouter(include_in_schema=False)


def install(app: FastAPI) -> None:
    """Serve the page and its files, and complete the OpenAPI document."""
    app.include_router(router)
    app.mount("/docs/assets", StaticFiles(directory=str(ASSETS)))
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign] # as FastAPI's documentation has it
    written = _Document(app)

    @app.get(OPENAPI_PATH, include_in_schema=False)
    async def document() -> Response:
        return Response(await written.read(), media_type="application/json")


@router.get("/docs")
async def page(context: ContextDep) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    # Swagger UI has its icons as data URLs; the styles that its script sets need no permission.
    policy = (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    warning = "" if context.tier.confines else _UNCONFINED.format(nonce=nonce)
    return HTMLResponse(
        _PAGE.format(nonce=nonce, openapi=OPENAPI_PATH, warning=warning), headers={"Content-Security-Policy": policy}
    )


class _Document:
    """The text of the OpenAPI document, which is made once, beside the event loop: it takes half a second.

    Anybody may ask for it, without a key. As FastAPI serves it, its 400 KB are written anew for each request.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._making = asyncio.Lock()
        self._text = b""

    async def read(self) -> bytes:
        async with self._making:
            if not self._text:
                self._text = await asyncio.to_thread(lambda: orjson.dumps(self._app.openapi()))
        return self._text


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            tags=app.openapi_tags,
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for model in _FURTHER_SCHEMAS:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            for name, definition in {**schema.pop("$defs", {}), model.__name__: schema}.items():
                schemas.setdefault(name, definition)
        document["components"]["schemas"] = dict(sorted(schemas.items()))
        app.openapi_schema = document
    return app.openapi_schema
