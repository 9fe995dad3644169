"""pip, run to install an environment's packages."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from service.domain.environment import python_release

# Constraints of pip's own configuration may stand beside ours: `torch<=2.14.1,==2.13.0+cpu`.
_CONSTRAINED = re.compile(r"The user requested \(constraint\) ([\w.-]++)\S*?==([^\s,]+)")


class InstallationFailed(Exception):
    """The environment was not made. The text says why, and what to do."""


def run_pip(python: Path, requirements: Path, constraints: Path, report: Callable[[str], object]) -> None:
    """Install the requirements for this interpreter, and report what pip prints line by line.

    Raises InstallationFailed.
    """
    command = [*_pip(), "--python", str(python), "install", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off", "--requirement", str(requirements), "--constraint", str(constraints)]
    lines = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"TMPDIR": str(constraints.parent)},  # /tmp may be small: in a container, it may be memory
        encoding="utf-8",
        errors="backslashreplace",
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line)
            report(line.rstrip("\n"))
    if pip.returncode != 0:
        raise InstallationFailed(_explain("".join(lines)))


def _pip() -> list[str]:
    """Return how pip is run: installed beside the service, or for the Python that the service's environment is of."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    base = [str(Path(sys.base_prefix, "bin", f"python{python_release()}")), "-m", "pip"]
    try:
        subprocess.run([*base, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        raise InstallationFailed("There is no pip here: install it beside the service.") from None
    return base


def _explain(printed: str) -> str:
    """Return why pip failed: packages of the service that the requirements would replace, or pip's own words."""
    replaced = sorted({f"{name} {version}" for name, version in _CONSTRAINED.findall(printed)})
    if replaced:
        return (
            f"The requirements would replace packages of the service: {', '.join(replaced)}. An environment adds "
            "packages and replaces none: ask for these versions or for none, or run another service with the others."
        )
    errors = [line for line in printed.splitlines() if line.startswith("ERROR:")]
    return errors[0] if errors else "pip failed; it printed why."
