"""The kind of this machine: what decides how fast code is here, and which code torch chooses."""

import hashlib
import platform
import re
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def machine_kind(threads: int) -> str:
    """Return the processor, what it can do, and how many threads compute, as text."""
    name, features = _processor()
    known = hashlib.sha256(features.encode()).hexdigest()[:12]
    return f"{name}, {platform.machine()} with the features {known}, threads: {threads}"


@cache
def _processor() -> tuple[str, str]:
    """Return the name of the first processor and its features; what the platform says where there is no /proc."""
    try:
        text = _CPUINFO.read_text(errors="replace")
    except OSError:
        return platform.processor() or "processor", ""
    return _value(text, "model name") or "processor", " ".join(sorted((_value(text, "flags|Features") or "").split()))


def _value(text: str, names: str) -> str | None:
    found = re.search(rf"^(?:{names})\s*:\s*(.*)$", text, re.MULTILINE)
    return found and found[1].strip()
