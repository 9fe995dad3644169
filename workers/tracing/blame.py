"""Blame: what comes out of submitted code becomes an error of the domain, with the user's line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from service.domain.errors import LimitExceeded, TraceError
from workers.tracing import lines

# As torch's allocators say it, for they raise RuntimeError.
_OUT_OF_MEMORY = ("DefaultCPUAllocator: ", "bad_alloc", "Cannot allocate memory")


@contextmanager
def blamed(kind: type[TraceError], doing: str, **facts: Any) -> Iterator[None]:
    """Around submitted code: any exception leaves as `kind`. A TraceError raised inside stays what it is."""
    try:
        yield
    except TraceError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory(error) from error
        detail = f"{doing} {type(error).__name__}: {lines.text_of(error)}"
        raise kind(detail, **lines.facts_of(error), **facts) from error


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError | OSError) and any(words in lines.text_of(error) for words in _OUT_OF_MEMORY)


def out_of_memory(error: BaseException) -> LimitExceeded:
    return LimitExceeded(
        "the model code asked for more memory than it may have", limit="memory", **lines.facts_of(error)
    )
