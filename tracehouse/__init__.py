"""Tracehouse: check whether a traced PyTorch model is right, and for which inputs.

`tracehouse.check(model, example_inputs)` checks a live model in this process and returns a report. Importing this
package loads neither torch nor the service; the first use of a name loads what it needs (PEP 562).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracehouse.check.live import check_live as check
    from tracehouse.check.report import Report

__all__ = ["Report", "check"]


def __getattr__(name: str) -> Any:
    match name:
        case "check":  # the package, which can be called: see there
            return import_module("tracehouse.check")
        case "Report":
            return import_module("tracehouse.check.report").Report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
