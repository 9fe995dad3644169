"""procrastinate has the queue: what waits, who runs what, and which workers are there.

Its tables are as its version 3.10 makes them, on PostgreSQL alone. Stop all processes of earlier releases first: they
have no part in this queue.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

from service.domain.errors import StorageUnavailable

revision = "0025"
down_revision = "0024"

documents = "af547a50c5d8a601"

_MADE = Path(__file__).parent.parent / "procrastinate_3_10.sql"
_QUEUED = """
INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock)
SELECT pool, 'trace', id, id FROM trace_requests WHERE state = 'queued' ORDER BY created_at, id
"""
_DROPPED = """
DROP TABLE procrastinate_periodic_defers, procrastinate_events, procrastinate_jobs, procrastinate_workers CASCADE;
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN
        SELECT oid FROM pg_proc
        WHERE starts_with(proname, 'procrastinate_') AND pronamespace = current_schema()::regnamespace
    LOOP
        EXECUTE 'DROP FUNCTION ' || made.oid::regprocedure;
    END LOOP;
END $$;
DROP TYPE procrastinate_job_to_defer_v1;
DROP TYPE procrastinate_job_status;
DROP TYPE procrastinate_job_event_type;
"""


def upgrade() -> None:
    if "procrastinate_jobs" in sa.inspect(op.get_bind()).get_table_names():
        raise StorageUnavailable(
            "another program has tables of procrastinate here: give the service a database, or a schema, of its own"
        )
    op.drop_table("turns")
    op.drop_table("workers")
    op.create_table(
        "workers",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("slots", sa.Text, nullable=False),
        sa.Column("revision", sa.Text, nullable=False, server_default="0020"),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    if op.get_bind().dialect.name == "postgresql":
        _execute(_MADE.read_text(encoding="utf-8"))
        _execute(_QUEUED)


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        _execute(_DROPPED)
    op.drop_table("workers")
    op.create_table(
        "workers",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("slots", sa.Text, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revision", sa.Text, nullable=False, server_default="0020"),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "turns",
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("is_idle", sa.Boolean, nullable=False),
        sa.Column("gives_way", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("request_id", name="pk_turns"),
    )
    op.create_index("ix_turns_worker", "turns", ["worker"])
    op.create_index("ix_turns_pool", "turns", ["pool"])


def _execute(statements: str) -> None:
    """Run statements without parameters, as they are."""
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
