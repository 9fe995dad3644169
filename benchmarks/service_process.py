"""The service as a user starts it, with the models' packages in its zygote: what the benchmarks ask over HTTP."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

MODELS = Path(__file__).parents[1] / "examples" / "models"


@contextmanager
def service(*command: str | Path, state: Path | None = None, **settings: str) -> Iterator[str]:
    """Its address. `command` is the `tracehouse` command of another version, in its own environment.

    It has the settings, those that are empty apart, and its state in a directory of its own, unless there is one.
    """
    tracehouse = command or [Path(sys.executable).with_name("tracehouse")]
    given = {"PRELOAD": str(MODELS / "preload.py"), "LOG_LEVEL": "ERROR", **settings}
    with tempfile.TemporaryDirectory() if state is None else nullcontext(state) as directory:
        process = subprocess.Popen(
            [*tracehouse, "serve", "--port", "0", "--state", directory],
            env={name: value for name, value in given.items() if value},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split("ready at ")[1].split()[0]
        finally:
            process.terminate()
            process.wait()
