"""mosec: a front in Rust, and the model in a process of its own. `batched` waits up to a millisecond for more rows."""

import os
import sys

import numpy as np
import orjson
import torch
from mosec import Server, Worker

ARCHIVE, PORT, KIND, DTYPE = (os.environ[name] for name in ("ARCHIVE", "PORT", "KIND", "DTYPE"))
ROW = [int(dim) for dim in os.environ["ROW"].split(",")]


class Net(Worker):
    """The bytes of a row, or JSON, in; the same out."""

    def __init__(self):
        torch.set_num_threads(int(os.environ["THREADS"]))
        self.model = torch.jit.load(ARCHIVE).eval()

    def deserialize(self, data):
        if data[:1] != b"{":
            return np.frombuffer(data, DTYPE).reshape(ROW), False
        given = orjson.loads(data)["inputs"][0]
        return np.array(given["data"], DTYPE).reshape(ROW), True

    def forward(self, asked):
        rows = asked if isinstance(asked, list) else [asked]
        with torch.inference_mode():
            answers = self.model(torch.from_numpy(np.stack([row for row, _ in rows]))).numpy()
        answered = [(answer, is_json) for answer, (_, is_json) in zip(answers, rows, strict=True)]
        return answered if isinstance(asked, list) else answered[0]

    def serialize(self, answered):
        answer, is_json = answered
        if not is_json:
            return answer.tobytes()
        output = {"name": "output", "datatype": "FP32", "shape": [1, len(answer)], "data": answer}
        return orjson.dumps({"model_name": "net", "outputs": [output]}, option=orjson.OPT_SERIALIZE_NUMPY)


if __name__ == "__main__":
    sys.argv = [sys.argv[0], "--address", "127.0.0.1", "--port", PORT, "--log-level", "error", "--timeout", "60000"]
    server = Server()
    environment = [dict(os.environ)]
    if KIND == "batched":
        server.append_worker(Net, num=1, max_batch_size=32, max_wait_time=1, env=environment)
    else:
        server.append_worker(Net, num=2, env=environment * 2)
    server.run()
