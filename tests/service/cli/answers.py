"""A service that answers what a test says."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

# From the method, the path without its query, and the JSON that was sent, to a status and the JSON of the reply.
Answer = Callable[[str, str, Any], tuple[int, Any]]


@contextmanager
def answering(answer: Answer, port: int = 0) -> Iterator[str]:
    """Serve until the block ends, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._read_and_answer()

        def do_PUT(self) -> None:
            self._read_and_answer()

        def do_PATCH(self) -> None:
            self._read_and_answer()

        def _read_and_answer(self) -> None:
            sent = self.rfile.read(int(self.headers["content-length"]))
            self._answer(json.loads(sent) if self.headers["content-type"] == "application/json" else sent)

        def _answer(self, sent: Any) -> None:
            status, reply = answer(self.command, self.path.partition("?")[0], sent)
            body = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    Thread(target=server.serve_forever).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
