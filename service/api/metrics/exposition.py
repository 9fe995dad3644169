"""Exposition: metrics as the text that Prometheus reads."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


def write(metrics: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """Return the text in the form that `accept` asks for, and its media type. The metrics are made meanwhile."""
    encode, media_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(metrics))
    return encode(registry), media_type


class _Once(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics
