"""A failure as plain text: why a model could not be traced, where, and what to do."""

from collections.abc import Iterator

from tracehouse.errors import Failure, by_slug


def failure_title(failure: Failure) -> str:
    error = by_slug().get(failure.slug)
    return failure.slug if error is None else error.title()


def failure_remedy(failure: Failure) -> str | None:
    """Return the remedy of this failure, or else that of all failures of its kind."""
    own, error = failure.facts.get("remedy"), by_slug().get(failure.slug)
    if isinstance(own, str):
        return own
    return None if error is None else error.remedy()


def failure_lines(failure: Failure) -> Iterator[str]:
    """Yield the title, what happened, the line of Python, and the remedy."""
    yield f"{failure_title(failure)} ({failure.slug})"
    yield f"    {failure.detail}"
    file, line, source = (failure.facts.get(name) for name in ("file", "line", "source"))
    if file is not None:
        yield f"    at {file}" + (f":{line}" if line is not None else "")
    if source:
        yield f"            {source}"
    if remedy := failure_remedy(failure):
        yield f"    Remedy: {remedy}"
