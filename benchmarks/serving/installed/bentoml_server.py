"""BentoML: one worker, whose method is batched as the service adapts it. It takes JSON: an array under `x`."""

import os
import sys

import numpy as np

if __name__ == "__main__":
    port = os.environ["PORT"]
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    command = ["serve", "bentoml_server:Net", "--host", "127.0.0.1", "--port", port, "--api-workers", "1"]
    os.execv(os.path.join(os.path.dirname(sys.executable), "bentoml"), ["bentoml", *command])

import bentoml
import torch

ROW = [int(dim) for dim in os.environ["ROW"].split(",")]


@bentoml.service(workers=1, traffic={"timeout": 60}, logging={"access": {"enabled": False}})
class Net:
    def __init__(self) -> None:
        torch.set_num_threads(int(os.environ["THREADS"]))
        self.model = torch.jit.load(os.environ["ARCHIVE"]).eval()

    @bentoml.api(batchable=True, max_batch_size=32, max_latency_ms=1000, route="/v2/models/net/infer")
    def infer(self, x: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return self.model(torch.from_numpy(np.asarray(x, os.environ["DTYPE"]).reshape(-1, *ROW))).numpy()
