"""Peers: servers that one would write by hand for one model, each a program of its own."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Answers fixed bytes: what HTTP alone costs with uvicorn.
BARE = """
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d")]})
    await send({"type": "http.response.body", "body": FIXED})
"""
# As little as can be between FastAPI and the model, in one process.
LEAN = """
import sys
import numpy as np, orjson, torch
from fastapi import FastAPI, Request, Response
torch.set_num_threads(1)
model = torch.jit.load(sys.argv[2]).eval()
app = FastAPI(openapi_url=None)

@app.post("/v2/models/net/infer")
async def infer(request: Request):
    body = await request.body()
    with torch.inference_mode():
        if (length := request.headers.get("inference-header-content-length")) is not None:
            head = orjson.loads(body[:int(length)])["inputs"][0]
            x = torch.frombuffer(bytearray(body[int(length):]), dtype=torch.float32).view(head["shape"])
            y = model(x).numpy()
            text = orjson.dumps({"outputs": [{"name": "output", "datatype": "FP32", "shape": y.shape,
                                              "parameters": {"binary_data_size": y.nbytes}}]})
            return Response(text + y.tobytes(), headers={"Inference-Header-Content-Length": str(len(text))})
        head = orjson.loads(body)["inputs"][0]
        x = torch.tensor(head["data"], dtype=torch.float32).view(head["shape"])
        y = model(x).numpy()
    text = orjson.dumps({"model_name": "net", "outputs": [{"name": "output", "datatype": "FP32", "shape": y.shape,
                         "data": y.ravel()}]}, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(text, media_type="application/json")
"""
RUN = """
import socket, sys, uvicorn
listening = socket.socket(); listening.bind(("127.0.0.1", 0)); listening.listen(1024)
print(listening.getsockname()[1], flush=True)
config = uvicorn.Config(app, access_log=False, log_level="error", loop="uvloop", http="httptools")
uvicorn.Server(config).run([listening])
"""


@contextmanager
def peer(program: str, *arguments: str) -> Iterator[tuple[tuple[str, int], int]]:
    """The address of a server, and its process."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program + RUN)
        file.flush()
        process = subprocess.Popen(
            [sys.executable, file.name, "serve", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(file.name).parent,
        )
        assert process.stdout is not None
        try:
            yield ("127.0.0.1", int(process.stdout.readline())), process.pid
        finally:
            process.kill()
            process.wait()


@contextmanager
def bare(fixed: bytes) -> Iterator[tuple[tuple[str, int], int]]:
    with peer(f"FIXED = {fixed!r}\n" + BARE.replace("%d", str(len(fixed)))) as started:
        yield started


@contextmanager
def lean(archive: Path) -> Iterator[tuple[tuple[str, int], int]]:
    with peer(LEAN, str(archive)) as started:
        yield started
