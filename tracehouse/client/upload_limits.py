"""Upload limits: what a service takes, asked before much is sent."""

from collections.abc import Mapping
from pathlib import Path

from tracehouse.byte_units import MIB
from tracehouse.client.errors import NotFound, NotSendable
from tracehouse.client.flow import Flow, get_json
from tracehouse.client.forms import LimitsForm

PATH = "/limits"
# Less than this is sent as fast as the service could be asked.
ASKED_FROM_BYTES = MIB
_LARGEST = 3
_REMEDY = "send less, have the service started with a larger {setting}, or get a key with a larger limit"


def byte_size_of(content: bytes | Path) -> int:
    """Return the size of a file that is sent."""
    return content.stat().st_size if isinstance(content, Path) else len(content)


def check_sizes(request_bytes: int, file_bytes: Mapping[str, int]) -> Flow[None]:
    """Ask the service for its limits if much is to be sent. Raises NotSendable if it takes less."""
    if request_bytes + sum(file_bytes.values()) < ASKED_FROM_BYTES:
        return
    try:
        limits = yield from get_json(PATH, LimitsForm)
    except NotFound:  # an earlier release, which refuses by itself
        return
    refuse_too_large(limits, request_bytes, file_bytes)


def refuse_too_large(limits: Mapping[str, int], request_bytes: int, file_bytes: Mapping[str, int]) -> None:
    """Raise NotSendable if the request without its files, or all of it together, is larger than the limits."""
    total = request_bytes + sum(file_bytes.values())
    most, request_most = limits["upload_max_bytes"], limits["request_max_bytes"]
    if file_bytes and total > most:
        largest = sorted(file_bytes.items(), key=lambda one: one[1], reverse=True)[:_LARGEST]
        listed = ", ".join(f"{name} {byte_size:,}" for name, byte_size in largest)
        others = f" and {len(file_bytes) - _LARGEST} more" if len(file_bytes) > _LARGEST else ""
        raise NotSendable(
            f"nothing was sent: the request and its files have {total:,} bytes ({listed}{others}), and the service "
            f"takes {most:,}: {_REMEDY.format(setting='UPLOAD_MAX_BYTES')}"
        )
    if request_bytes > request_most:
        raise NotSendable(
            f"nothing was sent: the request without its files has {request_bytes:,} bytes, and the service takes "
            f"{request_most:,}: give large inputs and sources as files; {_REMEDY.format(setting='REQUEST_MAX_BYTES')}"
        )
