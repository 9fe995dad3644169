"""Families of metrics: Prometheus' counters, gauges and histograms of what the service counts itself."""

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from service.histogram import Histogram

# The values of a family's labels, in their order, and what they count.
Labelled = Iterable[tuple[tuple[str, ...], float]]

NS = 1e9


def counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def counters(name: str, text: str, labels: Sequence[str], values: Labelled) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for labelled, value in values:
        family.add_metric(labelled, value)
    return family


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def gauges(name: str, text: str, labels: Sequence[str], values: Labelled) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for labelled, value in values:
        family.add_metric(labelled, value)
    return family


def histograms(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[tuple[str, ...], Histogram]], unit: float = NS
) -> Metric:
    """Return a family of histograms whose values are so many `unit`s."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for labelled, histogram in values:
        family.add_metric(labelled, _buckets(histogram, unit), histogram.total / unit)
    return family


def histogram(name: str, text: str, value: Histogram, unit: float = NS) -> Metric:
    return histograms(name, text, (), [((), value)], unit)


def foreign(name: str, text: str, labels: Sequence[str], values: Labelled) -> Metric:
    """Return a family whose name, another server's, stays as it is: that of a counter would have `_total` added."""
    family = Metric(name, text, "unknown")
    for labelled, value in values:
        family.add_sample(name, dict(zip(labels, labelled, strict=True)), value)
    return family


def _buckets(histogram: Histogram, unit: float) -> list[tuple[str, float]]:
    seen, buckets = 0, []
    counts = [*histogram.counts]  # as they are now: more may be added meanwhile
    for bound, count in zip([*(f"{bound / unit:g}" for bound in histogram.bounds), "+Inf"], counts, strict=True):
        seen += count
        buckets.append((bound, float(seen)))
    return buckets
