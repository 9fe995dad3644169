"""Client: the service over HTTP, for the commands that talk to one."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import httpx
import orjson
import typer

Url = Annotated[str, typer.Option("--url", envvar="TRACEHOUSE_URL", help="Where the service is.")]
DEFAULT_URL = "http://127.0.0.1:8000"


class ServiceRefused(Exception):
    """The service answered with a problem document."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(f"{problem.get('title')}: {problem.get('detail')} ({problem.get('code')})")
        self.problem = problem


class Client:
    """Raises ServiceRefused for every problem document and httpx.HTTPError if the service cannot be reached."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=httpx.Timeout(60, read=None))

    def submit(self, spec: dict[str, Any], files: Sequence[Path]) -> dict[str, Any]:
        """A trace request, its files streamed from disk."""
        if not files:
            return self._json(self._http.post("/trace", json=spec))
        with ExitStack() as opened:
            parts: list[tuple[str, Any]] = [("request", ("request.json", orjson.dumps(spec), "application/json"))]
            parts += [("files", (path.name, opened.enter_context(path.open("rb")))) for path in files]
            return self._json(self._http.post("/trace", files=parts))

    def events(self, request_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """(kind, data) of each event until the end."""
        with self._http.stream("GET", f"/trace/{request_id}/events") as response:
            kind = ""
            for line in response.iter_lines():
                if line.startswith("event:"):
                    kind = line.removeprefix("event:").strip()
                elif line.startswith("data:"):
                    yield kind, orjson.loads(line.removeprefix("data:"))

    def get(self, path: str, **params: str) -> dict[str, Any]:
        return self._json(self._http.get(path, params=params))

    def text(self, path: str, **params: str) -> str:
        response = self._http.get(path, params=params, headers={"accept": "text/plain"})
        if not response.is_success:
            raise ServiceRefused(orjson.loads(response.content))
        return response.text

    def infer(self, model: str, body: bytes, method: str) -> dict[str, Any]:
        headers = {"content-type": "application/json"}
        return self._json(self._http.post(f"/infer/{model}", content=body, headers=headers, params={"method": method}))

    @staticmethod
    def _json(response: httpx.Response) -> dict[str, Any]:
        answer: dict[str, Any] = orjson.loads(response.content)
        if not response.is_success:
            raise ServiceRefused(answer)
        return answer
