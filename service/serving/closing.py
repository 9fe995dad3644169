"""Closing: the end of a pool, in two steps."""

from service.domain.errors import ShuttingDown


class Closing:
    """Once it `has_begun`, no more requests are taken; once it `is_over`, all runners end, and none is started."""

    def __init__(self) -> None:
        self.has_begun = False
        self.is_over = False

    def refuse_request(self) -> None:
        """Raises ShuttingDown if it has begun."""
        if self.has_begun:
            raise ShuttingDown("no more inference is taken")

    def refuse_start(self) -> None:
        """Raises ShuttingDown if it is over."""
        if self.is_over:
            raise not_computed()


def not_computed() -> ShuttingDown:
    """Return the error of a request that was taken, and has no answer when the pool is closed."""
    return ShuttingDown("the service stopped before this was computed")
