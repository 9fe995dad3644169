"""An idempotency key and the submission that it stands for."""

from typing import Self

from service.domain.trace_request import TraceRequest
from tracehouse.frozen import Frozen


class Idempotency(Frozen):
    """A key may not be used again with other `content`."""

    key: str
    content: str

    @classmethod
    def of(cls, key: str, request: TraceRequest) -> Self:
        """Make the key of a request. `force`, which the request's content leaves out, makes a different submission."""
        return cls(key=key, content=f"{request.content} force={request.spec.force}")
