"""The metrics of a process as a whole: what it has answered over HTTP, its children, its database and its disk."""

from collections.abc import Iterator
from importlib.metadata import version

from prometheus_client import ProcessCollector
from prometheus_client.core import InfoMetricFamily, Metric

from service.api.metrics.families import counter, counters, gauge, gauges, histograms
from service.api.metrics.snapshot import ProcessSnapshot, Snapshot
from tracehouse.errors import ContractViolation, TraceError, by_slug

_PROCESS = ProcessCollector(registry=None)


def http_metrics(taken: ProcessSnapshot) -> Iterator[Metric]:
    yield histograms(
        "http_server_request_duration_seconds",
        "Requests that were answered, by method, route and status; 499 if the client left before.",
        ["http_request_method", "http_route", "http_response_status_code"],
        [((method, route, str(status)), durations) for (method, route, status), durations in taken.exchanges],
    )
    yield gauges(
        "http_server_active_requests",
        "Requests over HTTP that are being answered.",
        ["http_request_method"],
        [((method,), count) for method, count in taken.active.items()],
    )
    known = by_slug()
    problems = [
        ((slug, error.fault), taken.problems.get(slug, 0))
        for slug, error in known.items()
        if not issubclass(error, TraceError) or slug in taken.problems  # those are outcomes of traces
    ]
    refused = [
        ((slug,), taken.problems.get(slug, 0))
        for slug, error in known.items()
        if issubclass(error, ContractViolation) and error is not ContractViolation
    ]
    yield counters("tracehouse_problems", "Requests that were answered with a problem.", ["code", "fault"], problems)
    yield counters(
        "tracehouse_contract_violations",
        "Requests that were refused because no check has shown that the answer would be right, by the clause.",
        ["clause"],
        refused,
    )


def process_metrics(taken: ProcessSnapshot) -> Iterator[Metric]:
    context = taken.context
    about = {"version": version("tracehouse"), "torch": context.torch_version, "sandbox": context.tier.value}
    yield InfoMetricFamily("tracehouse_build", "The release, torch's, and how submitted code is confined.", about)
    yield gauge("tracehouse_sandbox_up", "Whether model code can be run.", taken.sandbox.fault is None)
    yield counter(
        "tracehouse_sandbox_restarts",
        "How often the process that forks all others died or hung, and was started anew.",
        taken.sandbox.restarts,
    )
    yield from _stored_metrics(taken)
    yield from _PROCESS.collect()


def work_metrics(taken: Snapshot) -> Iterator[Metric]:
    for name, text, values in (
        ("work_running", "Work of requests that has its turn.", taken.work_running),
        ("work_waiting", "Work of requests that waits for its turn.", taken.work_waiting),
        ("held_bytes", "Bytes of bodies and replies in memory.", taken.held_bytes),
    ):
        yield gauges(f"tracehouse_{name}", text, ["kind"], values.items())
    text = "Connections over HTTP that are open, and calls and requests of streams over gRPC."
    yield gauges("tracehouse_connections", text, ["protocol"], taken.connections.items())
    yield gauge("tracehouse_event_streams", "Event streams that are open.", taken.event_streams)


def _stored_metrics(taken: ProcessSnapshot) -> Iterator[Metric]:
    """What could not be read is left out: an old number would look like a new one."""
    stored, disk = taken.watched.stored, taken.watched.disk
    yield gauge("tracehouse_database_up", "Whether the database gave its figures in time.", stored is not None)
    if stored is not None:
        yield gauge("tracehouse_stored_bytes", "What counts against the tenants' quotas, all.", stored.stored_bytes)
    if disk is not None:
        yield gauge("tracehouse_disk_free_bytes", "Free on the disk of the state directory.", disk.free_bytes)
        yield gauge("tracehouse_disk_size_bytes", "The size of that disk.", disk.size_bytes)
