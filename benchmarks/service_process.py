"""The service as a user starts it, with the models' packages in its zygote: what the benchmarks ask over HTTP."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODELS = Path(__file__).parents[1] / "examples" / "models"


@contextmanager
def service(command: Path | None = None) -> Iterator[str]:
    """Its address. `command` is the `tracehouse` command of another version, in its own environment."""
    with tempfile.TemporaryDirectory() as state:
        process = subprocess.Popen(
            [command or Path(sys.executable).with_name("tracehouse"), "serve", "--port", "0", "--state", state],
            env={"PRELOAD": str(MODELS / "preload.py"), "LOG_LEVEL": "ERROR"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split("ready at ")[1].split()[0]
        finally:
            process.terminate()
            process.wait()
