"""Limits of a pool that has room for whatever a test asks of it, but for what the test says."""

from typing import Any

from service.sandbox.limits import Limits
from service.serving.pool import PoolLimits
from service.serving.runner import RunnerLimits
from tests.conftest import PATIENCE_S


def pool_limits(
    memory_max_bytes: int = 2**34,
    waiting_max: int = 8,
    hold_s: float = 30.0,
    share_s: float = 10 * PATIENCE_S,
    idle_s: float = 0.0,
    threads_max: int = 4,
    replicas: int = 1,
    replicas_max: int = 4,
    **runner: Any,
) -> PoolLimits:
    usual = {"child": Limits(address_space_mib=4096, cpu_s=None), "threads": 1, "infer_timeout_s": PATIENCE_S}
    return PoolLimits(
        runner=RunnerLimits(**(usual | runner)),
        memory_max_bytes=memory_max_bytes,
        waiting_max=waiting_max,
        hold_s=hold_s,
        share_s=share_s,
        idle_s=idle_s,
        threads_max=threads_max,
        replicas=replicas,
        replicas_max=replicas_max,
    )
