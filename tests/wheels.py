"""Wheels written by hand, so that pip installs in tests without a network: each is one module."""

import zipfile
from pathlib import Path

_ABOUT_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder: Path, name: str, version: str, module: str, text: str, *requires: str) -> None:
    """Write a wheel of one module, which requires these packages."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {each}\n" for each in requires)
    info = f"{name}-{version}.dist-info"
    files = {f"{module}.py": text, f"{info}/METADATA": metadata, f"{info}/WHEEL": _ABOUT_WHEEL}
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in (files | {f"{info}/RECORD": record}).items():
            wheel.writestr(path, content)


def write_requirements(folder: Path, *lines: str) -> Path:
    """Write a file of requirements, to be found among the wheels of the folder alone."""
    file = folder / "requirements.txt"
    file.write_text("\n".join(["--no-index", f"--find-links {folder}", *lines]) + "\n")
    return file
