"""PyTriton: Triton's front in C++, which batches what waits, and Python behind a socket."""

import os

import numpy as np
import torch
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

ARCHIVE, PORT = os.environ["ARCHIVE"], os.environ["PORT"]

torch.set_num_threads(1)
model = torch.jit.load(ARCHIVE).eval()


@batch
def infer(x):
    with torch.inference_mode():
        return [model(torch.from_numpy(x)).numpy()]


if __name__ == "__main__":
    config = TritonConfig(http_address="127.0.0.1", http_port=int(PORT), grpc_port=int(PORT) + 1,
                          allow_metrics=False, log_verbose=0)  # fmt: skip
    with Triton(config=config) as triton:
        triton.bind(
            model_name="net",
            infer_func=infer,
            inputs=[Tensor(name="x", dtype=np.float32, shape=(16,))],
            outputs=[Tensor(name="output", dtype=np.float32, shape=(4,))],
            config=ModelConfig(max_batch_size=32, batcher=DynamicBatcher(max_queue_delay_microseconds=0)),
            strict=False,
        )
        triton.serve()
