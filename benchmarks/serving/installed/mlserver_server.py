"""MLServer: its adaptive batching, its own codec of numpy, one process. It takes the JSON of the protocol."""

import json
import os
import sys
import tempfile

if __name__ == "__main__":
    port = os.environ["PORT"]
    directory = tempfile.mkdtemp()
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["PYTHONPATH"] = here
    settings = {"host": "127.0.0.1", "http_port": int(port), "grpc_port": int(port) + 1, "metrics_port": int(port) + 2,
                "parallel_workers": 0, "debug": False, "metrics_endpoint": None}  # fmt: skip
    model = {"name": "net", "implementation": "mlserver_server.Net", "max_batch_size": 32, "max_batch_time": 0.001}
    for name, content in (("settings.json", settings), ("model-settings.json", model)):
        with open(os.path.join(directory, name), "w") as file:
            json.dump(content, file)
    os.execv(os.path.join(os.path.dirname(sys.executable), "mlserver"), ["mlserver", "start", directory])

import torch
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Net(MLModel):
    async def load(self) -> bool:
        torch.set_num_threads(int(os.environ["THREADS"]))
        self.model = torch.jit.load(os.environ["ARCHIVE"]).eval()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        x = NumpyCodec.decode_input(payload.inputs[0])
        with torch.inference_mode():
            answer = self.model(torch.from_numpy(x)).numpy()
        return InferenceResponse(model_name="net", outputs=[NumpyCodec.encode_output("output", answer)])
