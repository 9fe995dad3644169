"""Peers: servers that one would write by hand for one model, each a program of its own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# Answers the fixed bytes of a form: what HTTP alone costs with uvicorn.
BARE = """
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    fixed = FIXED[scope["path"]]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(fixed))]})
    await send({"type": "http.response.body", "body": fixed})
"""
# The same without ASGI: no scope, no task and no queue, but bytes, from uvicorn's own protocol class.
PROTOCOL = """
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REPLIES = {path.encode(): b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(fixed) + fixed
           for path, fixed in FIXED.items()}

async def app(scope, receive, send):
    pass

class HTTP(HttpToolsProtocol):
    def on_headers_complete(self):
        pass

    def on_body(self, body):
        pass

    def on_message_complete(self):
        self.transport.write(REPLIES[self.url])
"""
# What one writes first: pydantic reads the numbers as lists, and the model runs on a thread of FastAPI's.
NAIVE = """
import os, sys
import torch
from fastapi import FastAPI
from pydantic import BaseModel
torch.set_num_threads(int(os.environ["THREADS"]))
model = torch.jit.load(sys.argv[2]).eval()
dtype = getattr(torch, os.environ["DTYPE"])
app = FastAPI()

class Input(BaseModel):
    name: str
    datatype: str
    shape: list[int]
    data: list[int if dtype is torch.int64 else float]

class Asked(BaseModel):
    inputs: list[Input]

class Output(BaseModel):
    name: str
    datatype: str
    shape: list[int]
    data: list[float]

class Answer(BaseModel):
    outputs: list[Output]

@app.post("/v2/models/net/infer")
def infer(asked: Asked) -> Answer:
    given = asked.inputs[0]
    with torch.no_grad():
        y = model(torch.tensor(given.data, dtype=dtype).view(given.shape))
    return Answer(outputs=[Output(name="output", datatype="FP32", shape=list(y.shape), data=y.flatten().tolist())])
"""
# As little as can be between FastAPI and the model, in one process.
LEAN = """
import os, sys
import numpy as np, orjson, torch
from fastapi import FastAPI, Request, Response
torch.set_num_threads(int(os.environ["THREADS"]))
model = torch.jit.load(sys.argv[2]).eval()
dtype = getattr(torch, os.environ["DTYPE"])
app = FastAPI(openapi_url=None)

@app.post("/v2/models/net/infer")
async def infer(request: Request):
    body = await request.body()
    with torch.inference_mode():
        if (length := request.headers.get("inference-header-content-length")) is not None:
            head = orjson.loads(body[:int(length)])["inputs"][0]
            x = torch.frombuffer(bytearray(body[int(length):]), dtype=dtype).view(head["shape"])
            y = model(x).numpy()
            text = orjson.dumps({"outputs": [{"name": "output", "datatype": "FP32", "shape": y.shape,
                                              "parameters": {"binary_data_size": y.nbytes}}]})
            return Response(text + y.tobytes(), headers={"Inference-Header-Content-Length": str(len(text))})
        head = orjson.loads(body)["inputs"][0]
        x = torch.tensor(head["data"], dtype=dtype).view(head["shape"])
        y = model(x).numpy()
    text = orjson.dumps({"model_name": "net", "outputs": [{"name": "output", "datatype": "FP32", "shape": y.shape,
                         "data": y.ravel()}]}, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(text, media_type="application/json")
"""
RUN = """
import socket, sys, uvicorn
listening = socket.socket(); listening.bind(("127.0.0.1", 0)); listening.listen(1024)
print(listening.getsockname()[1], flush=True)
config = uvicorn.Config(app, access_log=False, log_level="error", loop="uvloop", lifespan="off",
                        http=globals().get("HTTP", "httptools"))
uvicorn.Server(config).run([listening])
"""


@contextmanager
def start(program: str, *arguments: str, **settings: str) -> Iterator[tuple[tuple[str, int], int]]:
    """The address of a server, and its process."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program + RUN)
        file.flush()
        process = subprocess.Popen(
            [sys.executable, file.name, "serve", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(file.name).parent,
            env={**os.environ, **settings},
        )
        assert process.stdout is not None
        try:
            yield ("127.0.0.1", int(process.stdout.readline())), process.pid
        finally:
            process.kill()
            process.wait()


def fixed(program: str, replies: Mapping[str, bytes]) -> str:
    """Return a program that answers such a reply to any request for its path."""
    return f"FIXED = {dict(replies)!r}\n{program}"
