"""The runner's warm-up: run in the process that packers and runners are forked from, where nobody traces.

It loads a small archive and calls it in each form, because torch imports modules at the first use of many things, and a
runner in its jail can read no file. What `tracer_warmup` does beyond this takes several times as long.
"""

import gc
import io
import warnings

import torch

# Children that are forked from a process that ever ran more than one thread hang; a child raises the number again.
torch.set_num_threads(1)
torch.set_num_interop_threads(1)

from tracehouse.differential import golden  # noqa: E402
from tracehouse.torch_values import low_precision, script_archives  # noqa: E402


def _warm() -> None:
    low_precision.leave_broken_tiles_out()
    example = torch.zeros(1, 3, 8, 8)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).eval()
    saved = io.BytesIO()
    with torch.no_grad():
        torch.jit.save(torch.jit.trace(module, example, check_trace=False), saved)
    saved.seek(0)
    with torch.inference_mode():
        loaded: torch.jit.ScriptModule = script_archives.load(saved, "cpu")
        for form in (loaded, torch.jit.freeze(loaded), torch.jit.optimize_for_inference(loaded)):
            for _ in range(golden.CALLS_TO_SPECIALISE):
                form(example)
    _ = repr(example)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    _warm()
gc.collect()
