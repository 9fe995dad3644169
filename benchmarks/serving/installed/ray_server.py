"""Ray Serve: a proxy, and one replica that batches what waits."""

import os
import signal

import numpy as np
import orjson
import ray
import torch
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

ARCHIVE, PORT, DTYPE = (os.environ[name] for name in ("ARCHIVE", "PORT", "DTYPE"))
ROW = [int(dim) for dim in os.environ["ROW"].split(",")]


@serve.deployment(num_replicas=1, max_ongoing_requests=256, ray_actor_options={"num_cpus": 0.5})
class Net:
    def __init__(self, archive):
        torch.set_num_threads(int(os.environ["THREADS"]))
        self.model = torch.jit.load(archive).eval()

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.0)
    async def answer(self, rows):
        with torch.inference_mode():
            return list(self.model(torch.from_numpy(np.stack(rows))).numpy())

    async def __call__(self, request: Request):
        body = await request.body()
        if body[:1] != b"{":
            return Response((await self.answer(np.frombuffer(body, DTYPE).reshape(ROW))).tobytes())
        given = orjson.loads(body)["inputs"][0]["data"]
        answer = await self.answer(np.array(given, DTYPE).reshape(ROW))
        output = {"name": "output", "datatype": "FP32", "shape": [1, len(answer)], "data": answer}
        return Response(orjson.dumps({"outputs": [output]}, option=orjson.OPT_SERIALIZE_NUMPY))


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(PORT), "access_log": False})
    serve.run(Net.bind(ARCHIVE), route_prefix="/v2/models/net/infer")
    signal.sigwait([signal.SIGTERM])
    serve.shutdown()
    ray.shutdown()
