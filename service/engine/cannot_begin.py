"""Why a trace request cannot begin, however long it waits."""

import migrations
from service.domain.trace_request import State, TraceStatus


def cannot_begin(request: TraceStatus, slots: int, newest_worker: str = migrations.HEAD) -> str | None:
    """Return why the request cannot begin; None if it only waits for its turn, or has begun.

    Its pool has so many slots, and `newest_worker` is the revision that the newest release of its workers knows.
    """
    if request.state is not State.QUEUED:
        return None
    if not slots:
        return f"no worker in pool {request.pool}"
    if (request.revision or migrations.HEAD) > newest_worker:
        return f"all workers in pool {request.pool} are of an older release; it begins when one is updated"
    return None
