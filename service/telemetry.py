"""Traces of OpenTelemetry, which follow a request from HTTP through the queue into its worker, and into a runner.

They are off, and cost nothing, unless the environment names a receiver as OpenTelemetry defines it. The context of a
caller's trace is kept with a trace request even then, because the process that runs the request may have a receiver.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from time import time_ns
from typing import TYPE_CHECKING
from uuid import uuid4

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OTLP_OVER_HTTP = "http/protobuf"
# A caller's `tracestate`, which is stored, has at most so many characters: what W3C wants everybody to pass on.
_STATE_MAX = 512
# Of a text in a span, which may be an address of many kilobytes. Thousands of spans wait in memory while a receiver
# takes none.
_TEXT_MAX = 1024
_TEXT_LIMITS = ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")

# The headers of W3C in which a trace is carried on.
CONTEXT = ("traceparent", "tracestate")

_propagator = TraceContextTextMapPropagator()
_tracer = trace.get_tracer("tracehouse", version("tracehouse"))
_provider: "TracerProvider | None" = None

Attributes = Mapping[str, str | int | float | bool]


class TelemetryUnusable(Exception):
    """The environment asks for traces that this installation cannot send. The text says what to do."""


def is_on() -> bool:
    """Whether this process sends traces."""
    return _provider is not None


def start(service: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send traces from now on if the environment names a receiver. Raises TelemetryUnusable."""
    global _provider  # noqa: PLW0603 - OpenTelemetry has one provider for a process
    if not any(environment.get(name) for name in _ENDPOINTS) or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _OTLP_OVER_HTTP)
    if protocol != _OTLP_OVER_HTTP:
        raise TelemetryUnusable(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}: set it to {_OTLP_OVER_HTTP}, or to nothing"
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise TelemetryUnusable(
            f"traces of OpenTelemetry need packages that are not installed ({error}): "
            "pip install 'tracehouse-service[telemetry]'"
        ) from error
    ours = {"service.name": service, "service.version": version("tracehouse"), "service.instance.id": str(uuid4())}
    is_limited = any(environment.get(name) for name in _TEXT_LIMITS)
    _provider = TracerProvider(
        resource=Resource.create(ours).merge(OTELResourceDetector().detect()),
        span_limits=SpanLimits(max_span_attribute_length=None if is_limited else _TEXT_MAX),
        shutdown_on_exit=False,
    )
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(_provider)


def stop(within_s: float = 5.0) -> None:
    """Send what has not been sent yet, as far as the receiver takes it in so many seconds."""
    if _provider is not None:
        sending = threading.Thread(target=_provider.shutdown, name="telemetry ends", daemon=True)
        sending.start()
        sending.join(within_s)


@contextmanager
def span(
    name: str,
    attributes: Attributes | None = None,
    *,
    parent: Mapping[str, str] | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
) -> Iterator[Span]:
    """Give a span that lasts as long as the block, within the current one, or within what `carry` has returned.

    Log lines in the block have its ids. An error that leaves the block is named, without its text.
    """
    context = None if parent is None else _propagator.extract(parent, Context())
    with _tracer.start_as_current_span(
        name, context, kind, attributes, record_exception=False, set_status_on_exception=False
    ) as opened:
        try:
            yield opened
        except Exception as error:
            opened.set_attribute("error.type", type(error).__qualname__)
            opened.set_status(Status(StatusCode.ERROR))
            raise


def note_span(name: str, began_ns: int, ended_ns: int, attributes: Attributes | None = None) -> None:
    """Add a span to the current one that is over already. Times are those of `time_ns`."""
    _tracer.start_span(name, attributes=attributes, start_time=began_ns).end(max(began_ns, ended_ns))


def nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1e9)


class Steps:
    """Spans that follow one another within one: each begins when the one before ends."""

    def __init__(self, around: Span) -> None:
        self._context = trace.set_span_in_context(around)
        self._open: Span | None = None

    def begin(self, name: str) -> None:
        self.end()
        self._open = _tracer.start_span(name, self._context)

    def add(self, name: str, seconds: float, attributes: Attributes) -> None:
        """Add a step to the one that lasts: it has just ended, and took so long."""
        context = self._context if self._open is None else trace.set_span_in_context(self._open)
        now = time_ns()
        _tracer.start_span(name, context, attributes=attributes, start_time=now - int(seconds * 1e9)).end(now)

    def end(self) -> None:
        if self._open is not None:
            self._open.end()
            self._open = None


def carry(headers: Mapping[str, str]) -> dict[str, str] | None:
    """Return the context in which others go on: of the current span, or else of a request with these headers."""
    carrier: dict[str, str] = {}
    context = None if trace.get_current_span().get_span_context().is_valid else _propagator.extract(headers, Context())
    _propagator.inject(carrier, context)
    if len(carrier.get("tracestate", "")) > _STATE_MAX:
        del carrier["tracestate"]
    return carrier or None


def current_ids() -> dict[str, str]:
    """Return the ids of the current span, as a log line has them; none if there is none."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}
