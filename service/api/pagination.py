"""Pages of lists: cursors, and the link to the next page."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response

Limit = Annotated[int, Query(ge=1, le=100, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=500, description="A page's `next_cursor` gives the page after it.")]


def link_next(request: Request, response: Response, next_cursor: str | None) -> None:
    """The next page's address as a `Link` (RFC 8288), with whatever else was asked for."""
    if next_cursor is not None:
        query = urlencode({**request.query_params, "cursor": next_cursor})
        response.headers["Link"] = f'<{request.url.path}?{query}>; rel="next"'
