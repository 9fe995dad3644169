"""Event lines: a stream of server-sent events, as the service writes it, read line by line."""

from tracehouse.client.documents import Document, read_document
from tracehouse.client.forms import EventForm


class EventLines:
    """Reads the lines of one stream."""

    def __init__(self) -> None:
        self._kind = ""

    def read(self, line: str) -> tuple[str, Document] | None:
        """Return the kind and the data of the event that this line completes; None if it completes none.

        Raises UnexpectedReply.
        """
        if line.startswith("event:"):
            self._kind = line.removeprefix("event:").strip()
        if not line.startswith("data:"):
            return None
        return self._kind, read_document(line.removeprefix("data:"), EventForm)
