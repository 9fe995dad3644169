"""The connection to a service over HTTP, for the commands that talk to one."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any
from uuid import uuid4

import httpx
import typer

from service.cli.forms import InferenceReplyForm
from service.cli.problem_lines import problem_lines
from service.cli.usage_errors import refuse
from tracehouse.client import pace, upload_limits
from tracehouse.client.connection import (
    DEFAULT_URL,
    TRIES_MAX,
    WrongAddress,
    check_address,
    explain_path,
    pause_before_next,
    why_unreachable,
    with_scheme,
    without_credentials,
)
from tracehouse.client.documents import read_document, read_problem, write_document
from tracehouse.client.errors import NotSendable, UnexpectedReply
from tracehouse.client.event_lines import EventLines
from tracehouse.client.flow import IDEMPOTENCY_KEY, Reply, get_list
from tracehouse.client.forms import AliasForm, Form, LimitsForm, ModelForm, Page, PromotionForm, TraceRequestForm
from tracehouse.client.readiness import WAIT_MAX_S, Readiness, wait_until_ready
from tracehouse.client.registry import version_target
from tracehouse.printable_text import printable


def _parse_key(key: str | None) -> str | None:
    """Strip the spaces that a shell leaves around a key. Raises typer.BadParameter if no header can carry the key."""
    if key is None or re.fullmatch(r"[!-~]+", key.strip()):
        return key and key.strip()
    raise typer.BadParameter("this is not an API key")


Url = Annotated[str, typer.Option("--url", envvar="TRACEHOUSE_URL", help="Where the service is.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", envvar="TRACEHOUSE_KEY", callback=_parse_key, help="An API key, where the service asks for one."
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        envvar="TRACEHOUSE_WAIT",
        metavar="SECONDS",
        min=0,
        max=WAIT_MAX_S,
        help="Wait so long for a service that is starting.",
    ),
]


@dataclass(frozen=True)
class ServiceOptions:
    """Where the service is, and how it is asked."""

    url: Url = DEFAULT_URL
    key: Key = None
    wait: Wait = 0


class ServiceRefused(Exception):
    """The service answered with a problem document."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail"))
        self.problem = problem

    def lines(self) -> Iterator[str]:
        """Yield the problem as a person reads it."""
        return problem_lines(self.problem)


class Client:
    """A client of the service. It raises ServiceRefused for a problem document, httpx.HTTPError if nobody answers."""

    def __init__(self, options: ServiceOptions) -> None:
        url = with_scheme(options.url)
        headers = {} if options.key is None else {"authorization": f"Bearer {options.key}"}
        check_address(url)
        timeout = httpx.Timeout(60, read=None)  # an answer may take as long as the model takes to begin: see `pace`
        self._http = httpx.Client(base_url=url, timeout=timeout, headers=headers, event_hooks=pace.HOOKS)
        wait_until_ready(self._http, Readiness(without_credentials(url), options.wait))

    def submit(self, spec: dict[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
        """Submit a trace request and the files that it names, which are streamed from disk. Raises NotSendable."""
        text = write_document(spec)
        self._check_sizes(len(text), {name: path.stat().st_size for name, path in files.items()})
        headers = {IDEMPOTENCY_KEY: uuid4().hex}
        if not files:
            headers["content-type"] = "application/json"
            return _read(self._ask("POST", "/trace", content=text, headers=headers), TraceRequestForm)
        with ExitStack() as opened:
            parts: list[tuple[str, Any]] = [("request", ("request.json", text, "application/json"))]
            parts += [("files", (name, opened.enter_context(path.open("rb")))) for name, path in files.items()]
            return _read(self._ask("POST", "/trace", files=parts, headers=headers), TraceRequestForm)

    def events(self, request_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the kind and the data of each event until the request ends."""
        with self._stream(f"/trace/{request_id}/events") as response:
            lines = EventLines()
            for line in response.iter_lines():
                if (event := lines.read(line)) is not None:
                    yield event

    def cancel(self, request_id: str) -> None:
        _read(self._http.post(f"/trace/{request_id}/cancel"), TraceRequestForm)

    def address(self, path: str) -> str:
        """Return the address under which a browser finds the path."""
        return without_credentials(str(self._http.base_url.join(path)))

    def get(self, path: str, form: type[Form] | None = None, /, **params: str) -> dict[str, Any]:
        """Return the JSON document at a path, whose members have the types of the form. Raises UnexpectedReply."""
        return _read(self._ask("GET", path, params=params), form)

    def entries(
        self,
        path: str,
        member: str,
        form: type[Page],
        params: Mapping[str, str] | None = None,
        *,
        most: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return the entries of a list that comes a page at a time: all of them, or at most so many."""
        pages = get_list(path, member, form, params, most=most)
        try:
            ask = next(pages)
            while True:
                response = self._ask("GET", ask.path, params=ask.params)
                if not response.is_success:
                    raise _refusal(response, response.content)
                ask = pages.send(Reply(response.headers, response.content))
        except StopIteration as end:
            entries: list[dict[str, Any]] = end.value
            return entries

    def text(self, path: str, **params: str) -> str:
        response = self._ask("GET", path, params=params, headers={"accept": "text/plain"})
        if not response.is_success:
            raise _refusal(response, response.content)
        return response.text

    def download(self, path: str) -> bytes:
        response = self._ask("GET", path)
        if not response.is_success:
            raise _refusal(response, response.content)
        return response.content

    def download_to(self, path: str, file: IO[bytes]) -> int:
        """Write what the service answers to the file as it arrives, and return its size."""
        with self._stream(path) as response:
            return sum(file.write(part) for part in response.iter_bytes())

    def infer(self, model: str, body: bytes, method: str) -> dict[str, Any]:
        headers = {"content-type": "application/json"}
        reply = self._http.post(f"/infer/{model}", content=body, headers=headers, params={"method": method})
        return _read(reply, InferenceReplyForm)

    def promote(self, model: str, version: int, move_back_after: int | None) -> dict[str, Any]:
        """Make a version the default version, and return the reply."""
        target = version_target(version, move_back_after)
        return _read(self._http.post(f"/models/{model}/promote", json=target), PromotionForm)

    def set_alias(self, model: str, alias: str, version: int, move_back_after: int | None) -> dict[str, Any]:
        """Point an alias at a version, and return it. The service refuses it if somebody else moved it meanwhile."""
        path = f"/models/{model}/aliases/{alias}"
        present = self._ask("GET", path)
        condition = {"if-none-match": "*"}
        if present.status_code != httpx.codes.NOT_FOUND:
            condition = {"if-match": _read(present, AliasForm)["etag"]}
        target = version_target(version, move_back_after)
        return _read(self._http.put(path, json=target, headers=condition), AliasForm)

    def set_serving(self, model: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change how a model is served, and return it."""
        return _read(self._http.patch(f"/models/{model}", json=changes), ModelForm)

    def delete(self, path: str) -> None:
        response = self._http.delete(path)
        if not response.is_success:
            raise _refusal(response, response.content)

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, again if the service says to come back soon, and return the last response."""
        for tries in range(1, TRIES_MAX):
            response = self._http.request(method, path, **options)
            pause_s = pause_before_next(response, tries)
            if pause_s is None:
                return response
            time.sleep(pause_s)
        return self._http.request(method, path, **options)

    @contextmanager
    def _stream(self, path: str) -> Iterator[httpx.Response]:
        """Yield a response that says that it went well, before its content. Raises ServiceRefused, UnexpectedReply."""
        for tries in range(1, TRIES_MAX + 1):
            with self._http.stream("GET", path) as response:
                if response.is_success:
                    yield response
                    return
                content = response.read()
            pause_s = pause_before_next(response, tries)
            if pause_s is None:
                raise _refusal(response, content)
            time.sleep(pause_s)

    def _check_sizes(self, request_bytes: int, file_bytes: Mapping[str, int]) -> None:
        """Raise NotSendable, before anything is sent, if the service says that it takes less."""
        if request_bytes + sum(file_bytes.values()) < upload_limits.ASKED_FROM_BYTES:
            return
        limits = self._ask("GET", upload_limits.PATH)
        if limits.status_code != httpx.codes.NOT_FOUND:  # an earlier release has none to tell, and refuses by itself
            upload_limits.refuse_too_large(_read(limits, LimitsForm), request_bytes, file_bytes)


def _read(response: httpx.Response, form: type[Form] | None = None) -> dict[str, Any]:
    """Return the document of a reply. Raises ServiceRefused and UnexpectedReply."""
    if not response.is_success:
        raise _refusal(response, response.content)
    return read_document(response.content, form)


def _refusal(response: httpx.Response, content: bytes) -> ServiceRefused | UnexpectedReply:
    """Return the error for a reply that says that it did not go well."""
    problem = read_problem(content)
    if problem is None:
        return UnexpectedReply(
            f"it answers with {response.status_code}, and not as a Tracehouse service does; say where one is with "
            "--url http://HOST:PORT"
        )
    return ServiceRefused(problem)


@contextmanager
def connect(options: ServiceOptions) -> Iterator[Client]:
    """Yield a client of the service; if what asks it fails, say why on standard error and exit with 1.

    What cannot be sent, because it is too large or has no service's address, exits with 2.
    """
    shown = without_credentials(options.url)
    try:
        yield Client(options)
    except ServiceRefused as refused:
        for line in refused.lines():  # these may quote the submitted source
            typer.echo(printable(line), err=True)
        if refused.problem.get("status") == 404 and (note := explain_path(with_scheme(options.url))) is not None:
            typer.echo(note, err=True)
    except NotSendable as error:
        refuse(printable(str(error)))
    except UnexpectedReply as error:
        typer.echo(printable(f"{shown}: {error}"), err=True)
    except WrongAddress as error:
        refuse(f"--url (or TRACEHOUSE_URL) is {shown!r}, and {error}: write it as http://HOST:PORT")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        typer.echo(f"No Tracehouse answers at {shown} ({why_unreachable(shown, error)}).", err=True)
        typer.echo("Start one with: tracehouse serve; or say where it is with --url http://HOST:PORT", err=True)
        typer.echo("One that is starting is waited for with --wait SECONDS", err=True)
    else:
        return
    raise typer.Exit(1)
