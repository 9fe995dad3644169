"""The protocol's statistics document. Source: the "statistics extension"; Triton's perf_analyzer reads all of it."""

from typing import Self

from pydantic import Field

from service.serving.statistics import Duration, Statistics
from tracehouse.frozen import Frozen


class DurationReply(Frozen):
    """How often, and the nanoseconds together."""

    count: int = 0
    ns: int = 0

    @classmethod
    def of(cls, duration: Duration) -> Self:
        return cls(count=duration.count, ns=duration.ns)


class InferenceStatistics(Frozen):
    """Where the time of a version's requests went. There is no cache, and its counts stay 0."""

    success: DurationReply
    fail: DurationReply = Field(description="Requests that were not answered, those that the contract refuses too.")
    queue: DurationReply = Field(description="Waiting for the requests before, or for a process that starts.")
    compute_input: DurationReply = Field(description="Comparing the inputs with the contract.")
    compute_infer: DurationReply = Field(description="From the process's turn to its answer.")
    compute_output: DurationReply = Field(
        description="As often as an answer was given, and no time: writing the answer belongs to the connection."
    )
    cache_hit: DurationReply = DurationReply()
    cache_miss: DurationReply = DurationReply()


class ModelStatistics(Frozen):
    """What one version was asked since the service started."""

    name: str
    version: str
    last_inference: int = Field(description="When it answered last, in milliseconds since 1970; 0 if it never did.")
    inference_count: int = Field(description="Rows where rows are independent, and requests elsewhere.")
    execution_count: int
    inference_stats: InferenceStatistics
    response_stats: dict[str, int] = {}
    batch_stats: list[dict[str, int]] = []
    memory_usage: list[dict[str, int]] = []

    @classmethod
    def of(cls, statistics: Statistics, tenant: str, name: str, version: int) -> Self:
        counted = statistics.of((tenant, name, version))
        return cls(
            name=name,
            version=str(version),
            last_inference=counted.last_inference_ms,
            inference_count=counted.inferences,
            execution_count=counted.executions,
            inference_stats=InferenceStatistics(
                success=DurationReply.of(counted.success),
                fail=DurationReply.of(counted.failure),
                queue=DurationReply.of(counted.queue),
                compute_input=DurationReply.of(counted.input),
                compute_infer=DurationReply.of(counted.infer),
                compute_output=DurationReply(count=counted.infer.count),
            ),
        )


class StatisticsReply(Frozen):
    """Statistics of versions."""

    model_stats: list[ModelStatistics]
