"""Event lines: a stream of server-sent events, as the service writes it, read line by line."""

from typing import Any

import orjson


class EventLines:
    """Reads the lines of one stream."""

    def __init__(self) -> None:
        self._kind = ""

    def read(self, line: str) -> tuple[str, dict[str, Any]] | None:
        """Return the kind and the data of the event that this line completes; None if it completes none."""
        if line.startswith("event:"):
            self._kind = line.removeprefix("event:").strip()
        if not line.startswith("data:"):
            return None
        data: dict[str, Any] = orjson.loads(line.removeprefix("data:"))
        return self._kind, data
