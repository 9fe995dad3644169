"""A snapshot: what is counted in memory, taken on the event loop in little time, and written as metrics elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from service.api.context import AppContext, ProcessContext
from service.api.watched import WatchedFigures
from service.domain.live_check import LiveResult
from service.histogram import Histogram
from service.sandbox.zygote import ZygoteHealth
from service.serving.pool import PoolFigures
from service.serving.statistics import Statistics, VersionKey, VersionStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSnapshot:
    """What any process of the service counts."""

    context: ProcessContext
    watched: WatchedFigures
    exchanges: list[tuple[tuple[str, str, int], Histogram]]
    active: Mapping[str, int]  # by method
    problems: Mapping[str, int]
    sandbox: ZygoteHealth

    @classmethod
    def of_process(cls, context: ProcessContext, watched: WatchedFigures) -> "ProcessSnapshot":
        """Only the event loop's thread may call this."""
        return ProcessSnapshot(
            context=context,
            watched=watched,
            exchanges=[*context.exchanges.durations.items()],
            active=dict(context.exchanges.active),
            problems=dict(context.exchanges.problems),
            sandbox=context.sandbox_health(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(ProcessSnapshot):
    """`versions` are those that were asked last, at most as many as may have series of their own."""

    context: AppContext
    pool: PoolFigures
    statistics: Statistics
    versions: list[tuple[VersionKey, VersionStatistics]]
    versions_left_out: int
    work_running: Mapping[tuple[str, ...], int]
    work_waiting: Mapping[tuple[str, ...], int]
    held_bytes: Mapping[tuple[str, ...], int]
    connections: Mapping[tuple[str, ...], int]
    event_streams: int
    live_checks: Mapping[tuple[str, ...], int]  # by what became of them
    live_differences: Mapping[VersionKey, int]

    @classmethod
    def take(cls, context: AppContext, watched: WatchedFigures) -> Self:
        """Only the event loop's thread may call this."""
        versions = context.inference.statistics.all()
        left_out = max(0, len(versions) - context.limits.metrics_versions_max)
        live = context.inference.live_checker
        results = dict.fromkeys(LiveResult, 0) if live is None else live.results
        work = {
            ("threads",): context.turns,
            ("transfers",): context.transfers,
            ("drawings",): context.drawings,
            ("parsings",): context.parsings,
            ("submissions",): context.submissions,
        }
        return cls(
            context=context,
            watched=watched,
            pool=context.inference.pool_figures(),
            statistics=context.inference.statistics,
            versions=versions[left_out:],
            versions_left_out=left_out,
            exchanges=[*context.exchanges.durations.items()],
            active=dict(context.exchanges.active),
            problems=dict(context.exchanges.problems),
            work_running={name: turns.running for name, turns in work.items()},
            work_waiting={name: turns.waiting for name, turns in work.items()},
            held_bytes={("arriving",): context.arriving.total_bytes, ("unread",): context.unread.total_bytes},
            connections={(protocol,): count() for protocol, count in context.connections.items()},
            event_streams=context.streams.total,
            sandbox=context.sandbox_health(),
            live_checks={
                ("asked",): 0 if live is None else live.asked,
                **{(result.value,): count for result, count in results.items()},
            },
            live_differences={} if live is None else dict(live.different),
        )
