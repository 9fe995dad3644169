"""What alembic runs: the migrations on the connection, and in the transaction, that `upgrade` was given."""

from alembic import context

from service.storage.tables import metadata

# SQLite cannot alter a column: in a batch, alembic makes the table anew.
context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
