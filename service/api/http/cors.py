"""CORS: the web pages of other origins that may use the service. There are none unless a setting names them."""

from collections.abc import Collection

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

# Headers of our routes that browsers do not allow by themselves.
_REQUEST_HEADERS = (
    "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Last-Event-ID", "Prefer", "Range",
    "X-Request-ID",
)  # fmt: skip
_REPLY_HEADERS = (
    "Content-Disposition", "ETag", "Inference-Datatype", "Inference-Header-Content-Length", "Inference-Id",
    "Inference-Model", "Inference-Model-Version", "Inference-Output", "Inference-Seed", "Inference-Shape", "Link",
    "Location", "Preference-Applied", "RateLimit", "RateLimit-Policy", "Retry-After", "Warning", "WWW-Authenticate",
    "X-Request-ID",
)  # fmt: skip


def install(app: FastAPI, origins: Collection[str]) -> None:
    """Allow the origins, without credentials: there are no cookies, and the page itself sends the key."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
            allow_headers=_REQUEST_HEADERS,
            expose_headers=_REPLY_HEADERS,
        )
