"""The metrics of inference and of its runners: under Triton's names what Triton has, so that its dashboards work."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from service.api.metrics.families import counter, counters, foreign, gauge, gauges, histogram, histograms
from service.api.metrics.snapshot import Snapshot
from service.serving.pool import PoolFigures
from service.serving.runner import RunnerState
from service.serving.statistics import FailureReason

_VERSION = ("tenant", "model", "version")
_LIVING = [state for state in RunnerState if state is not RunnerState.GONE]


def inference_metrics(taken: Snapshot) -> Iterator[Metric]:
    ended = taken.statistics.ended()
    failures = [((reason.value.lower(),), count) for reason, count in ended.failures.items()]
    yield counters(
        "tracehouse_inference_requests",
        "Requests for inference by how they ended, of all models: answered, or not for Triton's reasons.",
        ["result"],
        [(("answered",), ended.success), *failures],
    )
    yield histogram(
        "tracehouse_inference_queue_seconds",
        "From a request's check against the contract until it is sent to a runner, the start of one included.",
        taken.statistics.queues,
    )
    yield counters(
        "tracehouse_live_checks",
        "Answers that were drawn to be compared with those of the model in Python, and what became of them.",
        ["result"],
        taken.live_checks.items(),
    )
    yield from _runner_metrics(taken.pool)
    yield gauge(
        "tracehouse_model_versions_left_out",
        "Model versions that were asked, and have no series of their own because METRICS_VERSIONS_MAX others do.",
        taken.versions_left_out,
    )
    yield from _version_metrics(taken)


def _version_metrics(taken: Snapshot) -> Iterator[Metric]:
    versions = [((tenant, name, str(version)), counted) for (tenant, name, version), counted in taken.versions]
    yield histograms(
        "tracehouse_inference_duration_seconds",
        "Requests that a model version has answered, from the check against the contract to the answer.",
        _VERSION,
        [(version, counted.answers) for version, counted in versions],
    )
    yield counters(
        "tracehouse_live_check_differences",
        "Answers of a model version that were not those of the model in Python.",
        _VERSION,
        [
            (version, taken.live_differences.get(key, 0))
            for (key, _), (version, _) in zip(taken.versions, versions, strict=True)
        ],
    )
    for name, text, values in (
        ("request_success", "Requests that were answered.", [one.success.count for _, one in versions]),
        ("count", "Rows that were computed where rows are independent, and requests elsewhere.",
         [one.inferences for _, one in versions]),
        ("exec_count", "Calls of the model, of which one may answer several requests.",
         [one.executions for _, one in versions]),
        ("pending_request_count", "Requests that have not been sent to a runner yet.",
         [one.waiting for _, one in versions]),
        ("request_duration_us", "Microseconds of the requests that were answered, together.",
         [one.success.ns // 1000 for _, one in versions]),
        ("queue_duration_us", "Microseconds for which they waited for a runner.",
         [one.queue.ns // 1000 for _, one in versions]),
        ("compute_input_duration_us", "Microseconds of their check against the contract.",
         [one.input.ns // 1000 for _, one in versions]),
        ("compute_infer_duration_us", "Microseconds from the call of the runner to the answer.",
         [one.infer.ns // 1000 for _, one in versions]),
        ("compute_output_duration_us", "Always 0: writing the answer belongs to the connection.", [0] * len(versions)),
    ):  # fmt: skip
        names = [version for version, _ in versions]
        yield foreign(f"nv_inference_{name}", text, _VERSION, zip(names, values, strict=True))
    failures = [
        ((*version, reason.value), counted.failures.get(reason, 0))
        for version, counted in versions
        for reason in FailureReason
    ]
    text = "Requests that were not answered. What the contract refuses is among OTHER, as it is with Triton."
    yield foreign("nv_inference_request_failure", text, [*_VERSION, "reason"], failures)


def _runner_metrics(pool: PoolFigures) -> Iterator[Metric]:
    states = Counter({(device, state.value): 0 for device in pool.waiting for state in _LIVING})
    states.update((device, runner.state.value) for device, runner in pool.runners if runner.state in _LIVING)
    waiting = [((device,), count) for device, count in pool.waiting.items()]
    yield gauges("tracehouse_runners", "Processes with a model, by what they do.", ["device", "state"], states.items())
    yield gauges("tracehouse_inference_waiting", "Requests that wait for a runner.", ["device"], waiting)
    in_flight = [((device,), count) for device, count in pool.in_flight.items()]
    text = "Requests that wait for a runner, and those that one answers."
    yield gauges("tracehouse_inference_in_flight", text, ["device"], in_flight)
    yield histogram(
        "tracehouse_inference_batch_requests", "Requests that a runner was asked at once.", pool.batches, unit=1
    )
    yield histogram(
        "tracehouse_runner_start_seconds", "Starts of runners, from the first request to ready.", pool.starts
    )
    yield counter("tracehouse_runners_lost", "Runners that were lost while they loaded or had to answer.", pool.lost)
    yield counter("tracehouse_runners_evicted", "Runners that were ended to make room for others.", pool.evicted)
    yield counter(
        "tracehouse_golden_cases_failed",
        "Runners that did not give the answers that the model gave when it was traced. They answer nothing.",
        pool.refuted,
    )
    yield gauge("tracehouse_artifacts_held_back", "Artifacts that are refused because runners died.", pool.held_back)
    byte_size = sum(runner.resident_bytes for _, runner in pool.runners) + pool.lodger_bytes
    yield gauge("tracehouse_pool_memory_bytes", "Memory of all runners, and of the live check's process.", byte_size)
    yield gauge("tracehouse_pool_memory_max_bytes", "What it may be: POOL_MEMORY_MIB.", pool.memory_max_bytes)
