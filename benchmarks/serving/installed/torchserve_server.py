"""TorchServe: a front in Java, one worker, batches of up to 32 that wait for a millisecond."""

import json
import os
import sys
import tempfile
import zipfile

if __name__ == "__main__":
    port = os.environ["PORT"]
    store = tempfile.mkdtemp()
    manifest = {"createdOn": "", "runtime": "python", "archiverVersion": "0.12.0",
                "model": {"modelName": "net", "handler": "handler.py", "modelVersion": "1.0"}}  # fmt: skip
    with zipfile.ZipFile(os.path.join(store, "net.mar"), "w") as model:
        model.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        model.write(os.path.abspath(__file__), "handler.py")
    config = {
        "inference_address": f"http://127.0.0.1:{port}",
        "management_address": f"http://127.0.0.1:{int(port) + 1}",
        "metrics_address": f"http://127.0.0.1:{int(port) + 2}",
        "grpc_inference_port": str(int(port) + 3),
        "grpc_management_port": str(int(port) + 4),
        "default_workers_per_model": "1",
        "disable_token_authorization": "true",
        "max_request_size": "16777216",
        "job_queue_size": "1000",
        "disable_system_metrics": "true",
        "models": json.dumps(
            {"net": {"1.0": {"defaultVersion": True, "marName": "net.mar", "minWorkers": 1, "maxWorkers": 1,
                             "batchSize": 32, "maxBatchDelay": 1, "responseTimeout": 60}}}
        ),
    }  # fmt: skip
    properties = os.path.join(store, "config.properties")
    with open(properties, "w") as file:
        file.write("\n".join(f"{name}={value}" for name, value in config.items()))
    directory = os.path.dirname(sys.executable)
    os.environ["PATH"] = directory + os.pathsep + os.environ["PATH"]
    os.environ["LOG_LOCATION"] = os.environ["METRICS_LOCATION"] = store
    os.chdir(store)
    command = ["--start", "--foreground", "--ncs", "--disable-token-auth"]
    command += ["--model-store", store, "--models", "net=net.mar", "--ts-config", properties]
    os.execv(os.path.join(directory, "torchserve"), ["torchserve", *command])

import numpy as np
import orjson
import torch

DTYPE, ROW = os.environ["DTYPE"], [int(dim) for dim in os.environ["ROW"].split(",")]


class Handler:
    def initialize(self, context):
        del context
        torch.set_num_threads(int(os.environ["THREADS"]))
        self.model = torch.jit.load(os.environ["ARCHIVE"]).eval()
        self.initialized = True

    def handle(self, requests, context):
        bodies = [request.get("body") or request.get("data") for request in requests]
        rows = [self._read(body) for body in bodies]
        with torch.inference_mode():
            answers = self.model(torch.from_numpy(np.stack(rows))).numpy()
        del context
        return [self._write(body, answer) for body, answer in zip(bodies, answers, strict=True)]

    def _read(self, body):
        if isinstance(body, dict):
            return np.array(body["inputs"][0]["data"], DTYPE).reshape(ROW)
        return np.frombuffer(bytes(body), DTYPE).reshape(ROW)

    def _write(self, body, answer):
        if not isinstance(body, dict):
            return answer.tobytes()
        output = {"name": "output", "datatype": "FP32", "shape": [1, len(answer)], "data": answer}
        return orjson.dumps({"outputs": [output]}, option=orjson.OPT_SERIALIZE_NUMPY).decode()
