"""What one request, one stream and one key may use of the HTTP face."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    request_max_bytes: int
    upload_max_bytes: int
    answer_max_bytes: int
    request_idle_s: float
    body_bytes_per_s_min: int
    tenant_connections_max: int
    streams_max: int
    tenant_streams_max: int
    key_requests_per_minute: int
    metrics_versions_max: int = 200
    heartbeat_s: float = 15.0  # a proxy closes an event stream on which nothing is sent for longer
