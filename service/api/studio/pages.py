"""The studio's pages. They are the same for everybody: what a page shows, it asks for with the key of who reads it."""

from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, FastAPI, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

from service.api.context import AppContext, ContextDep
from service.api.studio import parts
from service.api.studio.rendering import render
from tracehouse.spec.model_name import ModelName

_STATIC = files("service.api.studio").joinpath("static")

# Only the studio's own files run, and only the policy `studio`, in static/api.js, makes elements of text.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types studio"
)

router = APIRouter(include_in_schema=False)

_RequestId = Annotated[str, Path(alias="id", max_length=100)]


def install(app: FastAPI) -> None:
    """Serve the pages, their parts and their files."""
    app.include_router(router)
    app.include_router(parts.router)
    app.mount("/studio/static", StaticFiles(directory=str(_STATIC)))


@router.get("/")
async def index(request: Request) -> RedirectResponse:
    """Lead a browser to the studio, and whoever else asks to the documentation."""
    wants_page = "text/html" in request.headers.get("accept", "")
    return RedirectResponse("/studio" if wants_page else "/docs", headers={"Vary": "Accept"})


@router.get("/studio")
async def start(context: ContextDep) -> HTMLResponse:
    return _page(context, "start.html", title="Tracehouse studio")


@router.get("/studio/trace/{id}")
async def trace(context: ContextDep, request_id: _RequestId) -> HTMLResponse:
    return _page(context, "trace.html", title="Trace", request_id=request_id)


@router.get("/studio/trace/{id}/graph")
async def graph(context: ContextDep, request_id: _RequestId) -> HTMLResponse:
    return _page(context, "graph.html", title="Source and graph", request_id=request_id)


@router.get("/studio/models/{name}")
async def model(context: ContextDep, name: Annotated[ModelName, Path()]) -> HTMLResponse:
    return _page(context, "model.html", title=f"Model {name}", name=name)


def _page(context: AppContext, template: str, **values: str) -> HTMLResponse:
    page = render(template, keys_required=context.keys_required, is_confined=context.tier.confines, **values)
    return HTMLResponse(page, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"})
