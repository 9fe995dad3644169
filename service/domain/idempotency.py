"""An idempotency key, and the submission it stands for."""

from typing import Self

from service.domain.trace_request import TraceRequest
from tracehouse.frozen import Frozen


class Idempotency(Frozen):
    """The same key with other `content` is a mistake of the caller."""

    key: str
    content: str

    @classmethod
    def of(cls, key: str, request: TraceRequest) -> Self:
        """The request's content leaves out `force`, but a submission with it is another one."""
        return cls(key=key, content=f"{request.content} force={request.spec.force}")
