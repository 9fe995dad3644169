"""Pages of lists: cursors, and the link to the next page."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response

Limit = Annotated[int, Query(ge=1, le=100, description="The largest number of items on a page.")]
Cursor = Annotated[
    str | None, Query(max_length=500, description="The `next_cursor` of a page; it gives the page after it.")
]


def link_next(request: Request, response: Response, next_cursor: str | None) -> None:
    """Put the next page's address, with the other query parameters, into the header `Link` (RFC 8288)."""
    if next_cursor is not None:
        query = urlencode({**request.query_params, "cursor": next_cursor})
        response.headers["Link"] = f'<{request.url.path}?{query}>; rel="next"'
