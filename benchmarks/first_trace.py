"""How long a new user waits for the first trace: `git clone`, then `make demo`, until the first verdict is there.

Run it twice: the first run downloads packages, and the second one finds them in pip's cache.

    python benchmarks/first_trace.py [--port 8078]
"""

import argparse
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What has been reached once the output of `make demo` has a line with these words, in their order.
STEPS = {
    "pip install": "the environment is made",
    "compileall": "the packages are there",
    "touch .venv": "they are compiled",
    "ready at ": "the service answers",
    "verdict: ": "the first verdict",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", default="8078")
    port = parser.parse_args().port
    with tempfile.TemporaryDirectory(prefix="first-trace-", ignore_cleanup_errors=True) as place:
        began = time.monotonic()
        clone = Path(place) / "tracehouse"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        report("cloned", began)
        try:
            follow(clone, port, began)
        finally:
            stop(clone / "state" / "demo" / "pid")


def follow(clone: Path, port: str, began: float) -> None:
    """Run the demo in the clone, and say when each step is reached."""
    left = dict(STEPS)
    with subprocess.Popen(
        ["make", "demo", f"PORT={port}"],
        cwd=clone,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            for words in [each for each in left if each in line]:
                report(left.pop(words), began)
    report("all three models are served", began)
    if demo.returncode or left:
        raise SystemExit(
            f"make demo ended with {demo.returncode}, and without: {', '.join(left.values()) or 'nothing'}"
        )


def report(what: str, began: float) -> None:
    print(f"{time.monotonic() - began:7.1f} s  {what}", flush=True)


def stop(pid_file: Path) -> None:
    if pid_file.exists():
        os.kill(int(pid_file.read_text()), signal.SIGTERM)


if __name__ == "__main__":
    main()
