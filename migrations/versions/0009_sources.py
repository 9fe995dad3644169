"""Sources: a table of their own, so that a source is read without the rest of the submission, which may be long."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

submissions = sa.table("submissions", sa.column("request_id"), sa.column("spec"), sa.column("files"))
sources = sa.table("sources", sa.column("request_id"), sa.column("files"), sa.column("source"))


def upgrade() -> None:
    op.create_table(
        "sources",
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("request_id", name="pk_sources"),
        sa.ForeignKeyConstraint(["request_id"], ["trace_requests.id"], name="fk_sources_trace_requests"),
    )
    _take_out_sources()
    op.drop_column("submissions", "files")


def downgrade() -> None:
    op.add_column("submissions", sa.Column("files", sa.Text, nullable=False, server_default="{}"))
    _put_sources_back()
    op.drop_table("sources")


def _take_out_sources() -> None:
    connection = op.get_bind()
    # One at a time: a spec may have megabytes of data.
    for request_id in connection.scalars(sa.select(submissions.c.request_id)).all():
        its = submissions.c.request_id == request_id
        row = connection.execute(sa.select(submissions.c.spec, submissions.c.files).where(its)).one()
        spec = json.loads(row.spec)
        source = _text(spec.pop("source"))
        connection.execute(sa.insert(sources).values(request_id=request_id, files=row.files, source=source))
        connection.execute(sa.update(submissions).where(its).values(spec=_text(spec)))


def _put_sources_back() -> None:
    connection = op.get_bind()
    for row in connection.execute(sa.select(sources)).all():
        its = submissions.c.request_id == row.request_id
        spec = json.loads(connection.scalars(sa.select(submissions.c.spec).where(its)).one())
        spec["source"] = json.loads(row.source)
        connection.execute(sa.update(submissions).where(its).values(spec=_text(spec), files=row.files))


def _text(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
