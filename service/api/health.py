"""Health: whether the process lives, and whether it can do its work."""

import shutil
from pathlib import Path
from typing import Literal

from fastapi import APIRouter

from service.api.context import ContextDep, ProcessContext
from service.api.problems import problem_responses
from service.domain.errors import DiskFull, FilesUnavailable, SandboxUnavailable, ShuttingDown, StorageUnavailable
from service.sandbox.tiers import Tier
from tracehouse.byte_units import MIB
from tracehouse.frozen import Frozen

# Room for one more archive of a usual size (ResNet-152 has 230 MiB): with less, the next trace may be what fails.
DISK_MIN_BYTES = 256 * MIB

LIVEZ = "/livez"
READYZ = "/readyz"
# The same for clients of the Open Inference Protocol.
PROTOCOL_LIVE = "/v2/health/live"
PROTOCOL_READY = "/v2/health/ready"
PATHS = frozenset({LIVEZ, READYZ, PROTOCOL_LIVE, PROTOCOL_READY})

READY_ERRORS = (StorageUnavailable, FilesUnavailable, SandboxUnavailable, DiskFull, ShuttingDown)

router = APIRouter(tags=["Health"])


class Alive(Frozen):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Sandbox(Frozen):
    """How submitted code is confined, and what the sandbox does not cover.

    `restarts` counts how often the process that forks all others died or hung, and was started anew: model code that
    ran then was ended with it.
    """

    tier: Tier
    description: str
    not_covered: list[str]
    restarts: int

    @classmethod
    def of(cls, tier: Tier, restarts: int) -> "Sandbox":
        return cls(tier=tier, description=tier.description, not_covered=tier.not_covered, restarts=restarts)


class Ready(Frozen):
    """The service can do its work.

    `damaged_files` lists, by their digests, stored files whose bytes are not those that were stored, as far as this
    process has met them. What needs one is refused as `content-damaged` until the same content is sent or made again.
    """

    status: Literal["ready"] = "ready"
    sandbox: Sandbox
    damaged_files: list[str]


@router.get(LIVEZ, summary="Check that the process is alive")
async def livez() -> Alive:
    """Looks at nothing but the process itself, for a restart would not mend anything else."""
    return Alive()


@router.get(
    READYZ,
    summary="Check that the service can do its work",
    responses=problem_responses(*READY_ERRORS),
)
def readyz(context: ContextDep) -> Ready:
    """Checks that database and files can be reached, that model code can be run, and that there is room on the disk."""
    return check_ready(context)


def check_ready(context: ProcessContext) -> Ready:
    """Raises one of READY_ERRORS."""
    if context.stopping.is_set():
        raise ShuttingDown("the service is shutting down")
    context.store.ping()
    context.store.blobs.ping()
    health = context.sandbox_health()
    if health.fault is not None:
        raise SandboxUnavailable(health.fault, restarts=health.restarts)
    _check_disk(context.state_dir)
    return Ready(sandbox=Sandbox.of(context.tier, health.restarts), damaged_files=context.store.blobs.damaged)


def _check_disk(state_dir: Path) -> None:
    free = shutil.disk_usage(state_dir).free
    if free < DISK_MIN_BYTES:
        raise DiskFull(f"{free} bytes are free", free=free, needed=DISK_MIN_BYTES)
