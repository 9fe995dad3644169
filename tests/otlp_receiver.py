"""A receiver of OpenTelemetry's protocol over HTTP, which keeps the spans that it is sent."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    """One span, with its ids in hexadecimal; `parent` is empty if it has none."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    began_ns: int
    ended_ns: int


class OtlpReceiver:
    """Listens on a port of this machine."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver._keep(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Self]:
        receiver = cls()
        try:
            yield receiver
        finally:
            receiver._server.shutdown()
            receiver._server.server_close()
            receiver._thread.join()

    @property
    def environment(self) -> dict[str, str]:
        """What has a process send its spans here, soon."""
        url = f"http://127.0.0.1:{self._server.server_port}"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    def named(self, name: str) -> list[ReceivedSpan]:
        return [one for one in self.spans if one.name == name]

    def children(self, of: ReceivedSpan) -> list[str]:
        """The names of the spans within one, in the order in which they began."""
        inside = [one for one in self.spans if (one.trace, one.parent) == (of.trace, of.id)]
        return [one.name for one in sorted(inside, key=lambda one: one.began_ns)]

    def _keep(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            service = _values(resource.resource.attributes)["service.name"]
            self.spans += [
                ReceivedSpan(
                    service,
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    _values(span.attributes),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                )
                for scope in resource.scope_spans
                for span in scope.spans
            ]


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
