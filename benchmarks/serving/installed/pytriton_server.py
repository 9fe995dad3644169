"""PyTriton: Triton's front in C++, which batches what waits, and Python behind a socket."""

import os

import numpy as np
import torch
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

ARCHIVE, PORT, INPUT = (os.environ[name] for name in ("ARCHIVE", "PORT", "INPUT"))
ROW = tuple(int(dim) for dim in os.environ["ROW"].split(","))

torch.set_num_threads(int(os.environ["THREADS"]))
model = torch.jit.load(ARCHIVE).eval()


@batch
def infer(**given):
    with torch.inference_mode():
        return [model(torch.from_numpy(given[INPUT])).numpy()]


if __name__ == "__main__":
    config = TritonConfig(http_address="127.0.0.1", http_port=int(PORT), grpc_port=int(PORT) + 1,
                          allow_metrics=False, log_verbose=0)  # fmt: skip
    with Triton(config=config) as triton:
        triton.bind(
            model_name="net",
            infer_func=infer,
            inputs=[Tensor(name=INPUT, dtype=np.dtype(os.environ["DTYPE"]).type, shape=ROW)],
            outputs=[Tensor(name="output", dtype=np.float32, shape=(-1,))],
            config=ModelConfig(max_batch_size=32, batcher=DynamicBatcher(max_queue_delay_microseconds=0)),
            strict=False,
        )
        triton.serve()
