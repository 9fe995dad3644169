"""What processes on several hosts need: a database and files that all of them reach."""

from service.cli.usage_errors import refuse
from service.settings import Settings


def require_shared_storage(settings: Settings) -> None:
    """End the command with 2 unless the settings name a PostgreSQL, and a place for files that others reach too."""
    if not names_postgresql(settings):
        refuse(
            "Processes that share trace requests need PostgreSQL: set DATABASE_URL to the same database for all of "
            "them, such as postgresql://tracehouse@db.example.com/tracehouse."
        )
    if settings.blob_url is None:
        refuse(
            "Processes that share trace requests need the same files: set BLOB_URL to the same place for all of them, "
            "such as file:///shared/files or s3://bucket/folder."
        )


def names_postgresql(settings: Settings) -> bool:
    """Whether the settings name a PostgreSQL."""
    return (settings.database_url or "").startswith(("postgresql:", "postgresql+"))
