"""CORS: which pages from elsewhere a browser lets use the service. None, unless somebody names them."""

from collections.abc import Collection

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

# What routes take and answer beside what browsers let through anyway.
_REQUEST_HEADERS = (
    "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Last-Event-ID", "Prefer", "Range",
    "X-Request-ID",
)  # fmt: skip
_REPLY_HEADERS = (
    "Content-Disposition", "ETag", "Link", "Location", "Preference-Applied", "RateLimit", "RateLimit-Policy",
    "Retry-After", "Warning", "WWW-Authenticate", "X-Request-ID",
)  # fmt: skip


def install(app: FastAPI, origins: Collection[str]) -> None:
    """Without credentials: there are no cookies here, and a key is sent by the page itself."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "HEAD", "POST", "PUT", "DELETE"),
            allow_headers=_REQUEST_HEADERS,
            expose_headers=_REPLY_HEADERS,
        )
