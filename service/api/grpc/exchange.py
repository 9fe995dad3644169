"""An exchange: what is asked is answered, or fails with what is wrong, by a status of gRPC or by a reply."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from grpc import aio
from opentelemetry import trace

from service.api.http.access_log import GIVEN_UP
from service.api.problems import InternalError, log_failure, status_of
from tracehouse.errors import ServiceError

R = TypeVar("R")

log = logging.getLogger(__name__)


class Exchange:
    """`status` is that of the access log, as over HTTP."""

    def __init__(self) -> None:
        self.status = GIVEN_UP

    async def run(self, answer: Awaitable[R], fail: Callable[[ServiceError], Awaitable[R]]) -> R:
        """Return the answer, or what `fail` makes of what is wrong."""
        try:
            answered = await answer
            self.status = 200
            return answered
        except ServiceError as error:
            log_failure(error)
            # The frames of its traceback would keep an answer that was refused, and this frame the error, until Python
            # looks for such circles.
            failed = error.with_traceback(None)
        except aio.BaseError:  # the client has gone
            raise
        except Exception:
            log.exception("the call failed")
            failed = InternalError("the log has the details under this call's id")
        self.status = status_of(type(failed))
        trace.get_current_span().set_attribute("error.type", failed.slug())
        return await fail(failed)
