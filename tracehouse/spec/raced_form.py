"""Raced forms: what torch, or another runtime, can make of a loaded archive to answer faster, tried on the machine that
serves.

A further form gets a name here and is made in `tracehouse.forms.raced`; nothing else knows one form from another.
"""

from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version


class RacedForm(StrEnum):
    """The forms, in the order in which they are tried."""

    FREEZE = "freeze"
    OPTIMIZE_FOR_INFERENCE = "optimize_for_inference"
    ONEDNN_FUSION = "onednn_fusion"
    ONNXRUNTIME = "onnxruntime"

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages beside torch that make the form; without one of them, it takes no part."""
        return _PACKAGES.get(self, ())

    @property
    def imports(self) -> tuple[str, ...]:
        """The modules that a process with the form imports before its jail closes, and no other process has."""
        return _IMPORTS.get(self, ())


def package_versions() -> dict[str, str | None]:
    """Return the versions of the packages that forms need beside torch; None for one that is not installed."""
    return {name: _version_of(name) for form in RacedForm for name in form.packages}


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


_PACKAGES = {RacedForm.ONNXRUNTIME: ("onnxruntime", "onnx")}
_IMPORTS = {RacedForm.ONNXRUNTIME: ("tracehouse.forms.onnx_runtime",)}
