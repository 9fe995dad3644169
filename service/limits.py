"""Limits: settings as the frozen limits that each part of the service takes."""

from math import ceil

from service.api.grpc.limits import GrpcLimits
from service.api.held_bytes import HeldLimits
from service.api.limits import RequestLimits
from service.domain.quotas import Quotas
from service.domain.retention import RetentionRules
from service.sandbox.limits import Limits
from service.serving.live_check import LiveCheckLimits
from service.serving.pictures import PictureLimits
from service.serving.pool import PoolLimits
from service.serving.processors import find_processors
from service.serving.runner import RunnerLimits
from service.settings import Settings
from service.storage.blob_cache import CacheLimits
from service.turns import TurnLimits
from tracehouse.byte_units import MIB
from tracehouse.spec.trace_spec import BudgetName
from workers.limits import TraceLimits

# Of a runner's address space. Chosen: torch maps less than 1 GiB of the usual 8, and the weights are there once.
_SHARE_OF_CALL = 0.5
# Of the messages that arrive at a time over gRPC, those that streams wait for. Chosen: calls always have some left.
_SHARE_OF_STREAMS = 3 / 4
_DAY_S = 86400
# So long one form is compared with the form as saved and timed, or all numbers of threads are. Chosen: some hundred
# calls of 100 ms in both.
_TRIAL_S = 120.0
# So long a model may take to load in Python, and to answer the examples, before answers are compared with it. Chosen.
_TWIN_LOAD_S = 120.0


def request_limits(settings: Settings) -> RequestLimits:
    return RequestLimits(
        request_max_bytes=settings.request_max_bytes,
        upload_max_bytes=settings.upload_max_bytes,
        answer_max_bytes=settings.infer_result_max_bytes,
        request_idle_s=settings.request_idle_s,
        body_bytes_per_s_min=settings.body_bytes_per_s_min,
        tenant_connections_max=settings.tenant_connections_max,
        streams_max=settings.streams_max,
        tenant_streams_max=settings.tenant_streams_max,
        key_requests_per_minute=settings.key_requests_per_minute,
        metrics_versions_max=settings.metrics_versions_max,
    )


def turn_limits(settings: Settings, running_max: int, *, keys_required: bool) -> TurnLimits:
    """Return the limits for so much at once. Without keys, there is one tenant, which has all."""
    return TurnLimits(
        running_max=running_max,
        tenant_running_max=max(1, running_max // 2) if keys_required else running_max,
        waiting_max=settings.requests_waiting_max,
        tenant_waiting_max=settings.tenant_requests_waiting_max if keys_required else settings.requests_waiting_max,
    )


def arriving_limits(settings: Settings, *, keys_required: bool) -> HeldLimits:
    return _held_limits(settings.arriving_max_bytes, settings.tenant_arriving_max_bytes, keys_required=keys_required)


def unread_limits(settings: Settings, *, keys_required: bool) -> HeldLimits:
    return _held_limits(settings.unread_max_bytes, settings.tenant_unread_max_bytes, keys_required=keys_required)


def cache_limits(settings: Settings) -> CacheLimits:
    return CacheLimits(directory=settings.blob_cache, max_bytes=settings.blob_cache_max_bytes)


def _held_limits(max_bytes: int, tenant_max_bytes: int, *, keys_required: bool) -> HeldLimits:
    """Return the limits. Without keys, there is one tenant, which has all."""
    return HeldLimits(max_bytes=max_bytes, tenant_max_bytes=tenant_max_bytes if keys_required else max_bytes)


def grpc_limits(settings: Settings, host: str, port: int, *, keys_required: bool) -> GrpcLimits:
    message_bytes = settings.grpc_message_max_bytes
    arriving = arriving_limits(settings, keys_required=keys_required)
    at_once = max(1, arriving.max_bytes // message_bytes)
    waiting = turn_limits(settings, at_once, keys_required=keys_required)
    tenant_at_once = min(at_once, max(1, arriving.tenant_max_bytes // message_bytes))
    readings = waiting.model_copy(update={"tenant_running_max": tenant_at_once})
    return GrpcLimits(
        host=host,
        port=port,
        message_max_bytes=message_bytes,
        readings=readings,
        listenings=readings.model_copy(
            update={"running_max": _share_of_streams(at_once), "tenant_running_max": _share_of_streams(tenant_at_once)}
        ),
        calls_max=settings.connections_max,
        address_calls_max=settings.address_connections_max,
        connections_max=settings.connections_max,
        handshake_s=settings.request_head_s,
        call_max_s=settings.request_idle_s + settings.infer_timeout_s,
        stream_idle_s=settings.grpc_stream_idle_s,
        stream_max_s=settings.grpc_stream_max_s,
        stop_grace_s=settings.shutdown_grace_s,
    )


def _share_of_streams(messages: int) -> int:
    """Return how many of the messages that arrive at a time may be those of streams."""
    return max(1, int(messages * _SHARE_OF_STREAMS))


def quotas(settings: Settings) -> Quotas:
    return Quotas(queued_max=settings.tenant_queued_max, stored_max_bytes=settings.tenant_stored_max_bytes)


def retention_rules(settings: Settings) -> RetentionRules:
    return RetentionRules(
        requests_s=_seconds(settings.requests_kept_days),
        tenant_max_bytes=settings.tenant_kept_max_bytes,
        events_s=_seconds(settings.events_kept_days),
        files_s=settings.files_kept_days * _DAY_S,
    )


def _seconds(days: float | None) -> float | None:
    return None if days is None else days * _DAY_S


def trace_limits(settings: Settings) -> TraceLimits:
    return TraceLimits(
        wall_s=settings.trace_wall_s,
        walls=trace_walls(settings),
        cpu_s=settings.trace_cpu_s,
        memory_mib=settings.trace_memory_mib,
        threads=settings.usual_threads,
        log_max_bytes=settings.trace_log_max_bytes,
        source_max_bytes=settings.source_max_bytes,
        child_threads_max=settings.child_threads_max,
        child_open_files_max=settings.child_open_files_max,
    )


def trial_limits(settings: Settings) -> TraceLimits:
    """Return the limits of the processes in which forms, and numbers of threads, are timed: those of a runner."""
    return TraceLimits(
        wall_s=_TRIAL_S,
        cpu_s=int(_TRIAL_S) * settings.usual_threads,
        memory_mib=settings.runner_memory_mib,
        threads=settings.usual_threads,
        log_max_bytes=0,
        source_max_bytes=0,
        child_threads_max=settings.child_threads_max,
        child_open_files_max=settings.child_open_files_max,
    )


def twin_limits(settings: Settings) -> TraceLimits:
    """Return the limits of the process of a model in Python that answers are compared with: those of a trace, but for
    the wall clock, which is the time to load."""
    return trace_limits(settings).model_copy(update={"wall_s": _TWIN_LOAD_S, "walls": {}, "log_max_bytes": 0})


def live_check_limits(settings: Settings) -> LiveCheckLimits:
    return LiveCheckLimits(share=settings.live_check_share)


def trace_walls(settings: Settings) -> dict[BudgetName, float]:
    """Return how long a trace may take, by the budget of its check."""
    normal_s = settings.trace_wall_s
    return {
        "quick": settings.trace_wall_quick_s or normal_s / 3,
        "normal": normal_s,
        "deep": settings.trace_wall_deep_s or normal_s * 3,
    }


def pool_limits(settings: Settings) -> PoolLimits:
    return PoolLimits(
        runner=_runner_limits(settings),
        memory_max_bytes=settings.pool_memory_mib * MIB,
        waiting_max=settings.pool_waiting,
        share_s=settings.pool_share_s,
        idle_s=settings.runner_idle_s,
        threads_max=threads_max(settings),
        replicas=1 if settings.runner_replicas == "measured" else settings.runner_replicas,
        replicas_max=len(find_processors()),
    )


def threads_max(settings: Settings) -> int:
    """Return how many threads a model may have compute."""
    return min(len(find_processors()), max(1, settings.child_threads_max // 2))


def picture_limits(settings: Settings) -> PictureLimits:
    child = Limits(
        address_space_mib=settings.runner_memory_mib,
        cpu_s=ceil(settings.infer_timeout_s),
        open_files=settings.child_open_files_max,
        threads=settings.child_threads_max,
    )
    return PictureLimits(child=child, timeout_s=settings.infer_timeout_s)


def call_memory_bytes(settings: Settings) -> int:
    """Return what the tensors of one call may take: the rest is for torch, weights and what addresses are lost."""
    return int(settings.runner_memory_mib * MIB * _SHARE_OF_CALL)


def _runner_limits(settings: Settings) -> RunnerLimits:
    child = Limits(
        address_space_mib=settings.runner_memory_mib,
        cpu_s=None,  # a runner answers for as long as it is asked
        open_files=settings.child_open_files_max,
        threads=settings.child_threads_max,
    )
    return RunnerLimits(
        child=child,
        threads=settings.usual_threads,
        infer_timeout_s=settings.infer_timeout_s,
        answer_max_bytes=settings.infer_result_max_bytes,
    )
