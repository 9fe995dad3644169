"""Triton's own front in C++, which batches what waits, with its backend for Python: the binary within PyTriton."""

import os
import shutil
import site
import sys
import tempfile

if __name__ == "__main__":
    config = """
name: "net"
backend: "python"
max_batch_size: 32
dynamic_batching { max_queue_delay_microseconds: 0 }
instance_group [ { count: 1 kind: KIND_CPU } ]
input [ { name: "%s" data_type: TYPE_%s dims: [ %s ] } ]
output [ { name: "output" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
    port, here = os.environ["PORT"], os.path.abspath(__file__)
    installed = os.path.join(site.getsitepackages()[0], "pytriton", "tritonserver")
    directory = tempfile.mkdtemp()
    repository, backends = os.path.join(directory, "models"), os.path.join(directory, "backends")
    os.makedirs(os.path.join(repository, "net", "1"))
    shutil.copy(here, os.path.join(repository, "net", "1", "model.py"))
    datatype = "INT64" if os.environ["DTYPE"] == "int64" else "FP32"
    with open(os.path.join(repository, "net", "config.pbtxt"), "w") as file:
        file.write(config % (os.environ["INPUT"], datatype, os.environ["ROW"]))
    shutil.copytree(os.path.join(installed, "backends"), backends)
    stub = os.path.join("python_backend_stubs", f"3.{sys.version_info.minor}", "triton_python_backend_stub")
    shutil.copy(os.path.join(installed, stub), os.path.join(backends, "python"))
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    os.environ["PYTHONPATH"] = site.getsitepackages()[0]
    libraries = os.path.join(site.getsitepackages()[0], "nvidia_pytriton.libs")
    os.environ["LD_LIBRARY_PATH"] = libraries + os.pathsep + os.environ.get("LD_LIBRARY_PATH", "")
    command = ["--model-repository", repository, "--backend-directory", backends, "--http-address", "127.0.0.1"]
    command += ["--http-port", port, "--allow-grpc", "false", "--allow-metrics", "false"]
    os.execv(os.path.join(installed, "bin", "tritonserver"), ["tritonserver", *command])

import numpy as np
import torch
import triton_python_backend_utils as triton


class TritonPythonModel:
    def initialize(self, args):
        del args
        torch.set_num_threads(int(os.environ["THREADS"]))
        self.model = torch.jit.load(os.environ["ARCHIVE"]).eval()
        self.input_name = os.environ["INPUT"]

    def execute(self, requests):
        given = [torch.from_numpy(triton.get_input_tensor_by_name(one, self.input_name).as_numpy()) for one in requests]
        with torch.inference_mode():
            answers = self.model(torch.cat(given)).numpy()
        parts = np.split(answers, np.cumsum([len(one) for one in given])[:-1])
        return [triton.InferenceResponse(output_tensors=[triton.Tensor("output", one)]) for one in parts]
