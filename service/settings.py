"""Every setting, with its unit; read once, where a process starts."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, FilePath

from tracehouse.byte_units import MIB
from tracehouse.frozen import Frozen


def _listed(value: object) -> object:
    """Of `a, b` both; anything else is as it is."""
    return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value


# As a browser writes it: no path, no slash at the end, and no star.
Origin = Annotated[str, Field(pattern=r"^https?://[a-z0-9.\[\]:_-]+$")]


class Settings(Frozen):
    """One environment variable per field, in capitals. Each description says what happens at its edge."""

    state_dir: Path = Field(Path("tracehouse-state"), description="Where the embedded default keeps rows and files.")
    database_url: str | None = Field(None, description="SQLAlchemy URL; unset: SQLite in the state directory.")
    blob_url: str | None = Field(None, description="fsspec URL; unset: a directory in the state directory.")

    api_keys: Literal["auto", "required"] = Field(
        "auto", description="Who asks must have a key; auto: unless only this machine can ask."
    )
    key_requests_per_minute: int = Field(
        600, gt=0, description="More by a key that has no number of its own are refused with 429."
    )
    cors_origins: Annotated[tuple[Origin, ...], BeforeValidator(_listed)] | None = Field(
        None, description="Origins of web pages elsewhere that may use the service, between commas; unset: none."
    )

    upload_max_bytes: int = Field(1024 * MIB, gt=0, description="A larger submission is refused with 413.")
    request_max_bytes: int = Field(16 * MIB, gt=0, description="The same for the JSON part alone, and for inference.")
    source_max_bytes: int = Field(64 * MIB, gt=0, description="What a source archive may unpack to.")
    queue_max: int = Field(1000, gt=0, description="More trace requests that wait in one pool, cpu or gpu: 503.")
    tenant_queued_max: int = Field(
        100, gt=0, description="More waiting trace requests of one tenant, where there are keys: 429."
    )
    tenant_stored_max_bytes: int = Field(
        51200 * MIB, gt=0, description="The same for all uploads and artifacts of one tenant, in bytes: 403."
    )

    sandbox: Literal["auto", "bubblewrap", "uids", "landlock", "seccomp", "i-accept-no-isolation"] = Field(
        "auto", description="How submitted code is confined; auto: the strongest that holds here, or no start."
    )
    child_threads_max: int = Field(
        256, gt=0, description="Threads of one tracing process or runner; with more it is killed."
    )
    child_open_files_max: int = Field(128, gt=0, description="Files that one of them may have open.")

    trace_slots: int = Field(2, gt=0, description="Trace requests that run at the same time.")
    gpu_slots: int = Field(
        0,
        ge=0,
        description="The same for those that ask for cuda; with 0 they wait. "
        "More needs SANDBOX=i-accept-no-isolation, for no jail lets CUDA in.",
    )
    trace_wall_s: float = Field(600.0, gt=0, description="A longer trace ends as limit-exceeded.")
    trace_cpu_s: int = Field(
        1200,
        gt=0,
        description="The same for the processor time of each process of a trace, "
        "of which there are up to four at a time.",
    )
    trace_memory_mib: int = Field(
        8192,
        gt=0,
        description="Address space of each process of a trace, of which there are up to four at a time; "
        "beyond it, limit-exceeded.",
    )
    trace_log_max_bytes: int = Field(MIB, gt=0, description="Printed output beyond it is cut, and the log says so.")
    trace_attempts: int = Field(3, gt=0, description="Tries for faults that are the service's own.")
    preload: FilePath | None = Field(None, description="Python file run once in the process that all others fork from.")

    runner_memory_mib: int = Field(8192, gt=0, description="Address space of a runner.")
    runner_threads: int = Field(2, gt=0, description="Threads that torch uses in a runner, and in a tracing process.")
    pool_memory_mib: int = Field(4096, gt=0, description="Resident memory of all runners; the least recently used go.")
    pool_waiting: int = Field(64, gt=0, description="More requests waiting for one runner are refused with 503.")
    infer_timeout_s: float = Field(60.0, gt=0, description="A longer inference ends as inference-timeout.")

    infer_result_max_bytes: int = Field(64 * MIB, gt=0, description="A larger answer ends as answer-too-large.")

    request_idle_s: float = Field(30.0, gt=0, description="A request that stops arriving for longer ends with 408.")
    connections_max: int = Field(
        1000,
        gt=0,
        description="More connections are refused with 503; never more than a quarter of the files it may open.",
    )
    streams_max: int = Field(200, gt=0, description="More open event streams are refused with 503.")
    tenant_streams_max: int = Field(50, gt=0, description="More of one tenant, where there are keys: 429.")
    shutdown_grace_s: float = Field(10.0, ge=0, description="Running inference is waited for, then cut.")
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="DEBUG, INFO, WARNING or ERROR.")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Raises pydantic's ValidationError, which names the field."""
        given = {name: environ[name.upper()] for name in cls.model_fields if name.upper() in environ}
        return cls.model_validate(given)

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.state_dir.absolute() / 'tracehouse.db'}"

    @property
    def blobs(self) -> str:
        return self.blob_url or (self.state_dir.absolute() / "blobs").as_uri()
