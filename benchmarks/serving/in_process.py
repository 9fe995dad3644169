"""The model in process: what a call costs without a server, of the archive as it was traced and in another form of it.

`measure.py` has a process of its own for it:

    .venv/bin/python -m benchmarks.serving.in_process ARCHIVE FORM QUESTION THREADS SECONDS
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from tracehouse.forms import raced
from tracehouse.spec.raced_form import RacedForm

_AS_TRACED = "traced"
_WARM_CALLS = 20


def call_in_process(
    archive: Path, form: str | None, question: Path, threads: int, seconds: float
) -> tuple[list[float], float, float, list[float]]:
    """Return the seconds of each call, of all calls and of the processor, and the answer, of calls in a process."""
    command = [sys.executable, "-m", "benchmarks.serving.in_process"]
    given = [str(archive), form or _AS_TRACED, str(question), str(threads), str(seconds)]
    said = subprocess.run([*command, *given], check=True, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]).stdout
    each_s, wall_s, processor_s, answer = json.loads(said)
    return each_s, wall_s, processor_s, answer


def main(archive: str, form: str, question: str, threads: str, seconds: str) -> None:
    torch.set_num_threads(int(threads))
    module = torch.jit.load(archive).eval()
    if form != _AS_TRACED:
        module = raced.make(module, RacedForm(form))
    given = np.load(question).tobytes()
    like = torch.from_numpy(np.load(question))

    def call() -> bytes:
        answer: bytes = module(torch.frombuffer(bytearray(given), dtype=like.dtype).view(like.shape)).numpy().tobytes()
        return answer

    with torch.inference_mode():
        for _ in range(_WARM_CALLS):
            answer = call()
        each_s = []
        began, processor_began = time.perf_counter(), time.process_time()
        now = began
        while now < began + float(seconds):
            call()
            each_s.append(time.perf_counter() - now)
            now += each_s[-1]
    print(json.dumps([each_s, now - began, time.process_time() - processor_began,
                      np.frombuffer(answer, np.float32).tolist()]))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
