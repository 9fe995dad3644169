"""Logs: one JSON object per line, with the id of the HTTP request or trace request that it belongs to."""

import logging
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

http_request_id: ContextVar[str | None] = ContextVar("http_request_id", default=None)


def configure(level: str) -> None:
    """Send every logger of this process to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Formatter(
            "{asctime}{levelname}{name}{message}",
            style="{",
            rename_fields={"asctime": "at", "levelname": "level", "name": "logger"},
            reserved_attrs=[*RESERVED_ATTRS, "color_message"],  # an attribute of uvicorn's, for terminals
        )
    )
    handler.addFilter(_add_request_id)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it reports each of its own modules
    for library in ("aiobotocore", "botocore", "fsspec", "s3fs"):  # at DEBUG they write session tokens and signatures
        logging.getLogger(library).setLevel(logging.WARNING)


def add_to_lines(fields: Callable[[], Mapping[str, str]]) -> None:
    """Add what `fields` returns, where a line is logged, to each line from now on."""

    def add(record: logging.LogRecord) -> bool:
        record.__dict__.update(fields())
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(add)


class _Formatter(JsonFormatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002
        """Return the time in UTC as RFC 3339 writes it, which means the same wherever the log is read."""
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _add_request_id(record: logging.LogRecord) -> bool:
    if (request_id := http_request_id.get()) is not None:
        record.http_request = request_id
    return True
