"""Tracehouse: check whether a traced PyTorch model is right, and for which inputs.

`tracehouse.check(model, example_inputs)` checks a live model in this process and returns a report. `tracehouse.Client`
has it traced, verified and served by a service. Importing this package loads neither torch nor the service; the first
use of a name loads what it needs (PEP 562).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracehouse.check.live import check_live as check
    from tracehouse.check.report import Report
    from tracehouse.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "Report", "check"]


def __getattr__(name: str) -> Any:
    match name:
        case "check":  # the package, which can be called: see there
            return import_module("tracehouse.check")
        case "Report":
            return import_module("tracehouse.check.report").Report
        case "Client" | "AsyncClient":
            return getattr(import_module("tracehouse.client.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
