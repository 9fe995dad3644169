"""Requested sizes: how many of the sizes that a request wants are accepted by what was made for one device."""

from collections.abc import Mapping, Sequence

from tracehouse.contract.regions import Span
from tracehouse.contract.size_coverage import cover_sizes
from tracehouse.spec.trace_spec import TraceSpec
from workers.device_trace import DeviceResult


def judge_coverage(results: Sequence[DeviceResult], spec: TraceSpec) -> list[DeviceResult]:
    """Return the results with the coverage of the sizes that the request wants, by all of them together.

    The results are those for one device, with their final contracts. All are restricted if a size is missing.
    """
    contracts = [one.verification.contract for one in results]
    dynamic = {method: call.dynamic for method, call in spec.calls.items()}
    coverage = cover_sizes(contracts, dynamic, _wanted_sizes(spec))
    return [one.with_coverage(coverage) for one in results]


def _wanted_sizes(spec: TraceSpec) -> Mapping[str, Sequence[Span]]:
    """Return the sizes by symbol. A symbol that only `buckets` lists counts with the buckets' sizes."""
    if not spec.sizes:
        return {}
    listed = {symbol: [Span(low=size, high=size) for size in sizes] for symbol, sizes in spec.buckets.items()}
    return {**listed, **{symbol: [span] for symbol, span in spec.sizes.items()}}
