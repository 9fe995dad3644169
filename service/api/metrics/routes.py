"""The metrics' route. The service stays quick meanwhile: what is slow is done on two threads of their own."""

from itertools import chain

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from service.api.context import ContextDep
from service.api.http.access import ACCESS_RESPONSES, MayReadMetrics
from service.api.metrics.exposition import write
from service.api.metrics.inference import inference_metrics
from service.api.metrics.machine import http_metrics, process_metrics, work_metrics
from service.api.metrics.snapshot import Snapshot
from service.api.metrics.traces import trace_metrics

_TEXT = {"schema": {"type": "string"}}
_CONTENT = {"text/plain": _TEXT, "application/openmetrics-text": _TEXT}

router = APIRouter(tags=["Health"], responses=ACCESS_RESPONSES)


@router.get(
    "/metrics",
    summary="Read the metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": _CONTENT}},
)
async def metrics(request: Request, context: ContextDep, caller: MayReadMetrics) -> Response:  # noqa: ARG001
    """Returns counters, gauges and histograms of this process since its start, in Prometheus' text form, or in that of
    OpenMetrics if `Accept` asks for it. They name all tenants and their models, so that keys need the scope `metrics`.
    """
    taken = Snapshot.take(context, await context.watched.read())
    accept = request.headers.get("accept", "")
    content, media_type = await to_thread.run_sync(_write, taken, accept, limiter=context.watched.rendering)
    return Response(content, media_type=media_type)


def _write(taken: Snapshot, accept: str) -> tuple[bytes, str]:
    every = (process_metrics, work_metrics, http_metrics, trace_metrics, inference_metrics)
    return write(chain.from_iterable(metrics_of(taken) for metrics_of in every), accept)
