"""LitServe: FastAPI in one process, the model in another one. It takes JSON."""

import os

import litserve
import numpy as np
import torch

ARCHIVE, PORT, DTYPE = (os.environ[name] for name in ("ARCHIVE", "PORT", "DTYPE"))
ROW = [int(dim) for dim in os.environ["ROW"].split(",")]


class Net(litserve.LitAPI):
    def setup(self, device):
        del device
        torch.set_num_threads(int(os.environ["THREADS"]))
        self.model = torch.jit.load(ARCHIVE).eval()

    def decode_request(self, request):
        return np.array(request["inputs"][0]["data"], DTYPE).reshape(ROW)

    def batch(self, inputs):
        return torch.from_numpy(np.stack(inputs))

    def predict(self, x):
        with torch.inference_mode():
            return self.model(x).numpy()

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        return {"outputs": [{"name": "output", "datatype": "FP32", "shape": [1, len(output)], "data": output.tolist()}]}


if __name__ == "__main__":
    api = Net(max_batch_size=32, batch_timeout=0.0, api_path="/v2/models/net/infer")
    server = litserve.LitServer(api, accelerator="cpu", devices=1, workers_per_device=1, fast_queue=True)
    server.run(host="127.0.0.1", port=int(PORT), num_api_servers=1, generate_client_file=False, log_level="error",
               access_log=False)  # fmt: skip
