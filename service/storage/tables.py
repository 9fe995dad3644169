"""The tables. `migrations/` makes them, and `python -m migrations.check` checks that both agree."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    false,
    text,
)

from service.domain.api_key import Scope
from service.domain.live_check import LiveCounterexample
from service.domain.model import Bucket, MovedBack
from service.domain.promotion import Promotion
from service.domain.trace_request import DeviceArtifact
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.errors import Failure, ServiceError
from tracehouse.findings.finding import Finding
from tracehouse.findings.submissions import findings_unreadable

log = logging.getLogger(__name__)

_LOGGED_MAX_CHARACTERS = 1000


class Document(TypeDecorator[Any]):
    """A domain value as JSON text, which is validated when a row is read.

    A value that cannot be read is an error, unless `unreadable` gives another in its place: then one bad row does not
    make a whole list unreadable.
    """

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any, unreadable: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self.kind = kind
        self.unreadable = unreadable
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else self.dump(value)

    def dump(self, value: Any) -> str:
        return self._adapter.dump_json(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        return self.read(value)

    def read(self, value: str | None, *, is_exact: bool = False) -> Any:
        """Return the domain value of the text that is stored. If it `is_exact`, nothing is given in its place."""
        if value is None:
            return None
        try:
            return self._adapter.validate_json(value)
        except ValidationError:
            if self.unreadable is None or is_exact:
                raise
            log.exception("a stored document cannot be read", extra={"document": value[:_LOGGED_MAX_CHARACTERS]})
            return self.unreadable()


def document_bytes(column: Column[Any], value: Any) -> int:
    """Return how many bytes a value takes in a column of documents."""
    assert isinstance(column.type, Document)
    return len(column.type.dump(value).encode())


def _unreadable_findings() -> list[Finding]:
    return [findings_unreadable()]


def _unreadable_failure() -> Failure:
    return Failure(slug=ServiceError.slug(), detail="the stored failure cannot be read")


class Moment(TypeDecorator[datetime]):
    """A time in UTC; SQLite stores no time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name != "sqlite":
            return value
        return value.replace(tzinfo=UTC)


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


def _written_at_revision() -> Column[str]:
    """Return the column that says which revision of `migrations` the release knew that wrote the row.

    A release from before there was the column leaves it out.
    """
    return Column("revision", Text, nullable=False, server_default="0020")


_PINNED = text("pinned")
_WAITS = text("state = 'queued' AND NOT is_idle")

trace_requests = Table(
    "trace_requests",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("budget", Text, nullable=False, server_default="normal"),  # of its check: the class that it is timed by
    Column("continues", Text),  # the artifact whose check it goes on with
    Column("is_idle", Boolean, nullable=False, server_default=false()),  # nobody asked for it
    Column("state", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("progress", Float, nullable=False),
    Column("attempt", Integer, nullable=False),  # the fence: grows with each claim, and only then
    Column("faults", Integer, nullable=False),  # attempts that ended through a fault of the service
    Column("events", Integer, nullable=False),  # the newest event's seq
    Column("verdict", Text),
    Column("environment", Document(EnvironmentRef)),
    Column("model_name", Text, nullable=False),
    Column("model_version", Integer),  # null until one is registered
    Column("artifacts", Document(list[DeviceArtifact]), nullable=False),
    Column("findings", Document(list[Finding], _unreadable_findings), nullable=False),
    Column("outputs", Document(BlobRef)),
    Column("failure", Document(Failure, _unreadable_failure)),
    Column("promotion", Document(Promotion)),  # null if no version was registered, or an earlier release did it
    Column("created_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("ended_at", Moment),
    Column("stored_bytes", BigInteger, nullable=False),  # counts against the tenant's quota
    Column("trace_context", Document(dict[str, str])),  # of OpenTelemetry; null if the request came without one
    _written_at_revision(),
    Index(None, "state", "created_at", "id"),
    Index(None, "tenant", "created_at", "id"),
    Index(None, "tenant", "state", "created_at", "id"),
    # Up to the id, because the newest is queried: otherwise SQLite reads all rows of the tenant in order of time.
    Index(None, "tenant", "content", "created_at", "id"),
    Index(None, "tenant", "stored_bytes"),
    Index(None, "tenant", "continues"),
    # The oldest that waits of each tenant and budget is found without a look at the others, however many wait.
    Index(
        "ix_trace_requests_waiting",
        "pool",
        "tenant",
        "budget",
        "created_at",
        "id",
        sqlite_where=_WAITS,
        postgresql_where=_WAITS,
    ),
)

# A table of its own, because SQLite rewrites a whole row at each change, and a spec may have megabytes of data. It is
# text, which is validated when the transaction that reads it has ended.
submissions = Table(
    "submissions",
    metadata,
    Column("request_id", ForeignKey("trace_requests.id"), primary_key=True),
    Column("spec", Text, nullable=False),  # without its source
)

# The source of each spec, and the uploaded files: apart, because a caller may read the source again without the rest.
sources = Table(
    "sources",
    metadata,
    Column("request_id", ForeignKey("trace_requests.id"), primary_key=True),
    Column("files", Text, nullable=False),
    Column("source", Text, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("content", Text, nullable=False),
    # Checked at the end of the transaction: the key is written first, and the second of two equal submissions waits.
    Column("request_id", ForeignKey("trace_requests.id", deferrable=True, initially="DEFERRED"), nullable=False),
    Column("created_at", Moment, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("request_id", ForeignKey("trace_requests.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("data", Document(dict[str, JsonValue]), nullable=False),
    Column("created_at", Moment, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("manifest", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    _written_at_revision(),
)

# Equal artifacts are stored once, whoever traced them; a tenant sees those that its own trace requests made.
artifact_owners = Table(
    "artifact_owners",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("digest", ForeignKey("artifacts.digest"), primary_key=True),
    Column("archive", Text),  # its digest, or that of the first of the artifacts whose check went on
    Column("idle_pool", Text),  # whose idle workers may go on with its check; null if none may, or somebody has
    Column("withdrawn_by", Text),  # the trace request whose check found its contract wrong
    Column("signature", Text),  # a DSSE envelope; null if it was made unsigned
    Column("stored_bytes", BigInteger, nullable=False, server_default="0"),  # counts against the tenant's quota
    Index(None, "idle_pool"),
    Index(None, "tenant", "archive"),
    Index(None, "tenant", "stored_bytes"),
)

# A row remains when its model is deleted, so that no version and no revision of an alias is used twice.
models = Table(
    "models",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("last_version", Integer, nullable=False),
    Column("last_revision", Integer, nullable=False),
    Column("default_version", Integer),  # null if no version was promoted, or the model is deleted
    # How it is served, as `ServingOptions` has it.
    Column("bitwise", Boolean, nullable=False, server_default=false()),
    Column("idle_s", Float),
    Column("pinned", Boolean, nullable=False, server_default=false()),
    Column("threads", Integer),
    Column("replicas", Integer),
    # Of the default version, as of an alias.
    Column("move_back_after", Integer),
    Column("move_back_to", Integer),
    Column("counted_from", BigInteger),
    Column("moved_back", Document(MovedBack)),
    Index("ix_models_pinned", "tenant", "name", sqlite_where=_PINNED, postgresql_where=_PINNED),
    info={"owner": "tenant"},
)

model_versions = Table(
    "model_versions",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("artifacts", Document(dict[str, str]), nullable=False),
    Column("buckets", Document(list[Bucket])),  # null in versions from before there were buckets
    # Those of its artifacts that are withdrawn, as in artifact_owners: here because each inference reads this row.
    Column("withdrawn", Document(dict[str, str])),
    Column("verdict", Text, nullable=False),
    Column("trace_request", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    ForeignKeyConstraint(["tenant", "name"], ["models.tenant", "models.name"]),
    info={"owner": "tenant"},
)

aliases = Table(
    "aliases",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("alias", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("move_back_after", Integer),  # so many answers that are not those of the model; null: the alias stays
    Column("move_back_to", Integer),
    Column("counted_from", BigInteger),  # how many such answers the version had when the alias was set
    Column("moved_back", Document(MovedBack)),
    ForeignKeyConstraint(
        ["tenant", "name", "version"],
        ["model_versions.tenant", "model_versions.name", "model_versions.version"],
    ),
    info={"owner": "tenant"},
)

# What the live check found of each version that it checked.
live_checks = Table(
    "live_checks",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("asked", BigInteger, nullable=False),
    Column("equal", BigInteger, nullable=False),
    Column("different", BigInteger, nullable=False),
    Column("dropped", BigInteger, nullable=False),
    Column("could_not_run", BigInteger, nullable=False),
    Column("why", Text),
    Column("counterexamples", Document(list[LiveCounterexample]), nullable=False),
    Column("stored_bytes", BigInteger, nullable=False),  # counts against the tenant's quota
    ForeignKeyConstraint(
        ["tenant", "name", "version"],
        ["model_versions.tenant", "model_versions.name", "model_versions.version"],
    ),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("prefix", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("scopes", Document(frozenset[Scope]), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
    Column("last_used_at", Moment),
    Column("revoked_at", Moment),
    Column("requests_per_minute", Integer),
    Column("upload_max_bytes", BigInteger),
    Index(None, "tenant", "created_at", "prefix"),
    info={"owner": "prefix"},
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", Moment, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("via", Text, nullable=False),
    Column("key", Text),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("details", Document(dict[str, JsonValue]), nullable=False),
    Column("stored_bytes", BigInteger, nullable=False, server_default="0"),  # counts against the tenant's quota
    Index(None, "tenant", "id"),
    Index(None, "tenant", "stored_bytes"),
)

# Only tenants that have quotas of their own; null stands for the service's.
tenants = Table(
    "tenants",
    metadata,
    Column("name", Text, primary_key=True),
    Column("queued_max", Integer),
    Column("stored_max_bytes", BigInteger),
)

# Whom the ends of a tenant's trace requests are told. The secret has to be known as it is, to sign with.
webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_tried_at", Moment),
    Column("last_result", Text),
    Index(None, "tenant", "created_at", "id"),
)

# Messages that wait to be delivered; one that was delivered, or given up, has no row.
webhook_messages = Table(
    "webhook_messages",
    metadata,
    Column("id", Text, primary_key=True),
    Column("webhook", ForeignKey("webhooks.id"), nullable=False),
    Column("tenant", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("due_at", Moment, nullable=False),
    Index(None, "due_at"),
    Index(None, "tenant", "due_at"),
    Index(None, "webhook"),
)

# What follows is used where several processes run trace requests, on PostgreSQL, beside the tables of procrastinate
# (`jobs`), which has what waits and who runs what.

# The processes that run trace requests. The row of one that is lost is removed.
workers = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),  # among procrastinate's workers
    Column("slots", Document(dict[str, int]), nullable=False),  # by pools
    _written_at_revision(),
)

# The number of each tenant's last turn in a pool, which says whose was longest ago.
last_turns = Table(
    "last_turns",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)

# One row: the oldest release that may use these tables, by the revision that it knows. `migrations` writes it.
oldest_release = Table("oldest_release", metadata, Column("revision", Text, primary_key=True))
