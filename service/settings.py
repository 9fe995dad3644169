"""Every setting, with its unit in its name. Settings are read once, where a process starts."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import quote

from pydantic import BeforeValidator, Field, FilePath, IPvAnyNetwork, ValidationInfo, field_validator

from tracehouse.byte_units import MIB
from tracehouse.frozen import Frozen


def _split_list(value: object) -> object:
    """Split a text at its commas; return anything else unchanged."""
    return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value


# Where a password goes into the URL of a database: after a user, and where there is none yet.
_USER_ALONE = re.compile(r"(?<=://)([^:/@?]+)(?=@)")

# Threads where they are not measured, or not yet. Chosen: a large model gains, and a machine with few cores has them.
_THREADS = 2

# An origin as a browser writes it: no path, no slash at the end, and no star.
Origin = Annotated[str, Field(pattern=r"^https?://[a-z0-9.\[\]:_-]+$")]


class Settings(Frozen):
    """One environment variable for each field, in capitals. Each description says what happens at the limit."""

    state_dir: Path = Field(Path("tracehouse-state"), description="The directory of the database and the files.")
    database_url: str | None = Field(
        None, description="SQLAlchemy URL of the database. Unset: SQLite in the state directory."
    )
    database_password_file: FilePath | None = Field(
        None,
        description="A file with the password of the user in DATABASE_URL, which then has none. Unset: DATABASE_URL "
        "is used as it is.",
    )
    blob_url: str | None = Field(
        None,
        description="URL of the files: file:///shared/files for a directory that machines share, s3://bucket/folder "
        "for S3. Unset: a directory in the state directory.",
    )
    blob_cache_max_bytes: int = Field(
        20480 * MIB,
        gt=0,
        description="If the files are on S3, so many bytes of them stay on this machine's disk, in the state "
        "directory. Beyond, the least recently used go, except those that a process has open.",
    )

    api_keys: Literal["auto", "required"] = Field(
        "auto",
        description="required: every request needs an API key. auto: only if other machines can reach the service.",
    )
    first_key_file: FilePath | None = Field(
        None,
        description="A file with the API key that the first start makes, if keys are required and there never was one. "
        "Unset: the first start makes a key of its own and shows it once, on standard error.",
    )
    key_requests_per_minute: int = Field(
        600, gt=0, description="More requests with a key that has no limit of its own are refused with 429."
    )
    cors_origins: Annotated[tuple[Origin, ...], BeforeValidator(_split_list)] | None = Field(
        None, description="Origins of other web pages that may use the service, separated by commas. Unset: none."
    )

    upload_max_bytes: int = Field(1024 * MIB, gt=0, description="A larger submission is refused with 413.")
    request_max_bytes: int = Field(
        16 * MIB,
        gt=0,
        description="A larger JSON part of a submission, or a larger inference request in JSON, is refused with 413.",
    )
    source_max_bytes: int = Field(64 * MIB, gt=0, description="A source archive that unpacks to more is refused.")
    queue_max: int = Field(
        1000, gt=0, description="More waiting trace requests in one pool (cpu or gpu) are refused with 503."
    )
    tenant_queued_max: int = Field(
        100, gt=0, description="If keys are on, more waiting trace requests of one tenant are refused with 429."
    )
    tenant_stored_max_bytes: int = Field(
        51200 * MIB,
        gt=0,
        description="If keys are on, a tenant may store so many bytes, those that are being written included: an "
        "upload beyond is refused with 403, a trace ends as storage-quota-exceeded, and its log is cut.",
    )
    requests_kept_days: float | None = Field(
        None,
        gt=0,
        description="A sweep removes trace requests that ended so long ago, with all that is theirs, unless a model "
        "version names them. Unset: it removes none for their age.",
    )
    tenant_kept_max_bytes: int | None = Field(
        None,
        gt=0,
        description="A sweep removes the oldest ended trace requests of a tenant that has stored more, except those "
        "that a model version names. Unset: it removes none for their size.",
    )
    events_kept_days: float | None = Field(
        None,
        gt=0,
        description="A sweep removes the events and the log of trace requests that ended so long ago, also if a model "
        "version names them. Unset: it removes none.",
    )
    files_kept_days: float = Field(
        1.0,
        ge=0,
        description="A sweep removes files that nothing names if they were written so long ago, and at least five "
        "minutes.",
    )
    sweep_every_s: float | None = Field(
        None,
        gt=0,
        description="The service sweeps at its start, and then each time after so long. Unset: only `tracehouse gc` "
        "sweeps.",
    )

    signing_key: FilePath | None = Field(
        None,
        description="A file with the Ed25519 private key, in PEM, that artifacts are signed with. Unset: the service "
        "makes one in the state directory.",
    )

    sandbox: Literal["auto", "bubblewrap", "uids", "landlock", "seccomp", "i-accept-no-isolation"] = Field(
        "auto",
        description="How submitted code is confined. auto: the strongest way that works here, or no start.",
    )
    child_threads_max: int = Field(256, gt=0, description="A tracing process or runner with more threads is killed.")
    child_open_files_max: int = Field(128, gt=0, description="Files that a tracing process or runner may have open.")

    trace_slots: int = Field(2, gt=0, description="Trace requests that run at the same time.")
    gpu_slots: int = Field(
        0,
        ge=0,
        description="Trace requests for cuda that run at the same time; with 0 they wait. "
        "1 or more needs SANDBOX=i-accept-no-isolation, for no sandbox lets CUDA in.",
    )
    quick_slots: int = Field(
        0,
        ge=0,
        description="Of the slots of a pool, in all processes together, so many are kept for trace requests with "
        "check.budget quick; at least one is for all others.",
    )
    trace_wall_s: float = Field(
        600.0, gt=0, description="A longer trace with check.budget normal ends as limit-exceeded."
    )
    trace_wall_quick_s: float | None = Field(
        None,
        gt=0,
        description="The same with check.budget quick. Unset: a third of TRACE_WALL_S. A trace "
        "that has run for so long gives its slot to one that has never begun, if all slots have such traces.",
    )
    trace_wall_deep_s: float | None = Field(
        None, gt=0, description="The same with check.budget deep. Unset: three times TRACE_WALL_S."
    )
    trace_cpu_s: int = Field(
        1200,
        gt=0,
        description="A trace ends as limit-exceeded if one of its processes takes more processor time; "
        "up to four run at a time.",
    )
    trace_memory_mib: int = Field(
        8192,
        gt=0,
        description="Address space of each process of a trace; beyond it the trace ends as limit-exceeded, or is "
        "checked with less. Up to four run at a time.",
    )
    trace_log_max_bytes: int = Field(MIB, gt=0, description="More printed output is cut, and the log says so.")
    trace_attempts: int = Field(
        3, gt=0, description="Attempts at a trace request that fails through a fault of the service."
    )
    check_further: Literal["never", "idle"] = Field(
        "never",
        description="idle: a worker for which nothing waits goes on with a check that a limit cut, with budget deep, "
        "one at a time; any other trace request stops it. never: only where a request asks for it.",
    )
    preload: FilePath | None = Field(
        None, description="A Python file to run once in the process that forks all others."
    )

    runner_memory_mib: int = Field(8192, gt=0, description="Address space of a runner.")
    runner_threads: Annotated[int, Field(gt=0)] | Literal["measured"] = Field(
        "measured",
        description="Threads that torch uses in a runner, and in a tracing process. measured: as many as are worth it "
        "for each model, found out on the machine that serves; 2 until then, and in a tracing process. A model may say "
        "otherwise.",
    )
    runner_replicas: Annotated[int, Field(gt=0)] | Literal["measured"] = Field(
        "measured",
        description="Runners that answer a model, at most one for each core. measured: one, and more where requests "
        "wait while processors are idle, kept if they answer 1.25 times as many. A model may say otherwise.",
    )
    runner_idle_s: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="A runner that nobody has asked for so long is ended, and the next request starts another; 0: none "
        "is. A model may say otherwise.",
    )
    pool_memory_mib: int = Field(
        4096,
        gt=0,
        description="Resident memory of all runners, and of the live check's process, which is the first to end. Each "
        "tenant has an equal share. Beyond it, runners of "
        "tenants over their share are ended, the least recently used first, or requests are refused with 503.",
    )
    pool_share_s: float = Field(
        60.0, gt=0, description="A tenant has its share of the runners' memory for so long after its last inference."
    )
    pool_waiting: int = Field(256, gt=0, description="More requests that wait for one runner are refused with 503.")
    infer_timeout_s: float = Field(60.0, gt=0, description="A longer inference ends as inference-timeout.")

    grpc_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="The port for the Open Inference Protocol over gRPC, at the same address as HTTP; 0 takes a free "
        "one. Unset: there is no gRPC.",
    )
    grpc_message_max_bytes: int = Field(
        16 * MIB,
        gt=0,
        lt=2**31,
        description="A larger message over gRPC is refused, and so is a larger answer. As many messages arrive at a "
        "time as fit into ARRIVING_MAX_BYTES, and of one tenant as fit into TENANT_ARRIVING_MAX_BYTES.",
    )
    grpc_stream_idle_s: float = Field(
        120.0, gt=0, description="A stream over gRPC on which nothing is asked for so long is ended by the service."
    )
    grpc_stream_max_s: float = Field(
        600.0,
        gt=0,
        description="A stream over gRPC is ended by the service after so long, when what was asked on it is answered.",
    )

    served_sizes: Literal["all", "called"] = Field(
        "all",
        description="Which sizes of a contract are answered. called: only those at which the service itself called "
        "the model and the artifact, for a service whose submitters are not trusted: code that is written to deceive "
        "can forge what is proven. all: all that the contract accepts.",
    )
    served_forms: Literal["saved", "raced"] = Field(
        "saved",
        description="Which forms of an artifact answer. saved: the one that was verified. raced: torch's other forms "
        "of it, and that of ONNX Runtime with the extra `forms`, are compared with that one and timed on this machine, "
        "and the fastest that gave the same answers in all calls of the comparison answers from then on.",
    )
    live_check_share: float = Field(
        0.0,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Which share of the answers is compared with those of the model in Python, in one process beside "
        "all requests: 0.01 is one in a hundred. 0: none.",
    )
    fast_path: Literal["on", "off"] = Field(
        "on",
        description="on: small requests for inference are answered before the rest of the service sees them, with the "
        "same answers. off: all requests take the same way.",
    )
    infer_result_max_bytes: int = Field(64 * MIB, gt=0, description="A larger answer ends as answer-too-large.")

    request_head_s: float = Field(
        15.0, gt=0, description="A request whose headers are not complete after this time is refused with 408."
    )
    request_idle_s: float = Field(
        30.0,
        gt=0,
        description="A body of which nothing arrives for so long, or that falls so far behind BODY_BYTES_PER_S_MIN, "
        "is refused with 408. A reply that nobody reads for so long is cut.",
    )
    body_bytes_per_s_min: int = Field(
        1024, gt=0, description="A body that arrives more slowly falls behind; what arrives faster catches up."
    )
    keep_alive_s: int = Field(
        15, gt=0, description="A connection is closed if no request follows the last one within this time."
    )
    request_threads: int = Field(
        8,
        gt=0,
        description="Threads for what requests need, and as many for the files that they store and fetch. If keys are "
        "on, one tenant has at most half of them.",
    )
    drawing_processes: int = Field(
        2,
        gt=0,
        description="Pictures of graphs and reports that are made at the same time, each in a process of its own. "
        "If keys are on, half of them at most for one tenant.",
    )
    parsing_processes: int = Field(
        2,
        gt=0,
        description="JSON bodies of more than 64 KiB that are parsed at the same time, each in a process of its own; "
        "and as many pictures that are decoded. "
        "If keys are on, half of them at most for one tenant.",
    )
    requests_waiting_max: int = Field(
        500, gt=0, description="More requests that wait for such a thread, or for such a picture, are refused with 503."
    )
    tenant_requests_waiting_max: int = Field(
        100, gt=0, description="If keys are on, more such requests of one tenant are refused with 503."
    )
    arriving_max_bytes: int = Field(
        512 * MIB,
        gt=0,
        description="Bytes of request bodies that may be in memory; a body of more than 64 KiB beyond is refused with "
        "503. Uploaded files do not count, for they go to the disk as they arrive.",
    )
    tenant_arriving_max_bytes: int = Field(
        128 * MIB,
        gt=0,
        description="If keys are on, such a body is refused with 503 if more bytes of one tenant's would be in memory.",
    )
    unread_max_bytes: int = Field(
        512 * MIB,
        gt=0,
        description="Bytes of replies that may wait to be read by their clients; a large reply beyond is refused "
        "with 503. Of the answer to an inference, the tensors count.",
    )
    tenant_unread_max_bytes: int = Field(
        128 * MIB,
        gt=0,
        description="If keys are on, a large reply is refused with 503 if more bytes of one tenant's replies would "
        "wait to be read.",
    )
    connections_max: int = Field(
        1000,
        ge=10,
        description="At most a quarter of the files that the service may open. If there are more, the oldest idle one "
        "without a key is closed. A fifth is kept for requests with a key, a twentieth for health; other "
        "requests are refused with 503.",
    )
    address_connections_max: int = Field(
        500,
        ge=2,
        description="Connections without a key from one address, or one /64 of IPv6. If there are more, its oldest "
        "idle one is closed. A quarter is kept for requests with a key; others are refused with 429.",
    )
    tenant_connections_max: int = Field(
        250,
        gt=0,
        description="If keys are on, connections of one tenant. If there are more, its oldest idle one is closed; if "
        "none is idle, the request is refused with 429.",
    )
    forwarded_allow_ips: str = Field(
        "127.0.0.1,::1",
        description="Addresses or networks of reverse proxies, separated by commas. Their X-Forwarded-For says which "
        "address a request is from.",
    )
    streams_max: int = Field(200, gt=0, description="More open event streams are refused with 503.")
    tenant_streams_max: int = Field(
        50, gt=0, description="If keys are on, more open event streams of one tenant are refused with 429."
    )
    webhook_networks: Annotated[tuple[IPvAnyNetwork, ...], BeforeValidator(_split_list)] | None = Field(
        None,
        description="Networks that webhooks may reach, also without TLS, beside the public internet, separated by "
        "commas. Unset: none.",
    )
    metrics_versions_max: int = Field(
        200,
        ge=0,
        description="Model versions, those that were asked last, of which `/metrics` has lines of their own, some 35.",
    )
    shutdown_grace_s: float = Field(
        10.0, ge=0, description="How long a stopping service waits for inference that is running."
    )
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="DEBUG, INFO, WARNING or ERROR.")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Read the settings. Raises pydantic's ValidationError, which names the field."""
        given = {name: environ[name.upper()] for name in cls.model_fields if name.upper() in environ}
        return cls.model_validate(given)

    @field_validator("database_password_file")
    @classmethod
    def _check_password(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is None:
            return None
        try:
            password = _password(file)
        except OSError as error:
            raise ValueError(f"{file} cannot be read ({error.strerror})") from error
        if not password:
            raise ValueError(f"{file} is empty")
        if not _USER_ALONE.search(info.data.get("database_url") or ""):
            raise ValueError(
                "DATABASE_URL needs a user, and no password, such as postgresql://tracehouse@db/tracehouse"
            )
        return file

    @property
    def database(self) -> str:
        """The URL, with the password in it."""
        if self.database_url is None:
            return f"sqlite:///{self.state_dir.absolute() / 'tracehouse.db'}"
        if self.database_password_file is None:
            return self.database_url
        password = quote(_password(self.database_password_file), safe="")
        return _USER_ALONE.sub(lambda user: f"{user[0]}:{password}", self.database_url, count=1)

    @property
    def blobs(self) -> str:
        return self.blob_url or (self.state_dir.absolute() / "blobs").as_uri()

    @property
    def blob_cache(self) -> Path:
        return self.state_dir.absolute() / "cache"

    @property
    def signing_keys(self) -> Path:
        return self.state_dir.absolute() / "signing"

    @property
    def forms(self) -> Path:
        return self.state_dir.absolute() / "forms"

    @property
    def usual_threads(self) -> int:
        """Threads that torch uses in a tracing process, and in a runner until they are measured."""
        return _THREADS if self.runner_threads == "measured" else self.runner_threads

    @property
    def thread_counts(self) -> Path:
        return self.state_dir.absolute() / "threads"

    @property
    def bitwise(self) -> Path:
        return self.state_dir.absolute() / "bitwise"

    @property
    def environments(self) -> Path:
        return self.state_dir.absolute() / "environments"


def _password(file: Path) -> str:
    return file.read_text().rstrip("\r\n")
