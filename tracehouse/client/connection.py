"""The connection to a service: it runs flows over HTTP, waiting for each reply or in an event loop."""

import asyncio
import os
import re
import ssl
import time
from collections.abc import Mapping
from typing import Any, TypeVar

import httpx

from tracehouse.client import pace
from tracehouse.client.documents import read_problem, write_document
from tracehouse.client.errors import ClientError, NotSendable, ServiceUnreachable, UnexpectedReply, refusal
from tracehouse.client.flow import IDEMPOTENCY_KEY, Ask, Flow, Reply
from tracehouse.client.readiness import Readiness, causes_of, probe_async, wait_until_ready
from tracehouse.printable_text import printable_line

DEFAULT_URL = "http://127.0.0.1:8000"
# A service that is there accepts at once. An answer may take as long as the model takes to begin: see `pace`.
_TIMEOUT = httpx.Timeout(30, read=None, write=None)
# A request that a service cannot take now is sent so often in all, if the service says to come back that soon. Most
# say after a second.
TRIES_MAX = 3
PAUSE_MAX_S = 5.0
_SECONDS_MAX_DIGITS = 9
_PORT_MAX = 65535
_T = TypeVar("_T")


class Address:
    """Where the service is, and the key. What is not given is read from TRACEHOUSE_URL and TRACEHOUSE_KEY.

    `url` is the address as it is shown: errors stand in logs, and notebooks are kept. Raises NotSendable for what is
    the address of no service, and ServiceUnreachable for an address that nothing can have.
    """

    def __init__(self, url: str | None, key: str | None) -> None:
        url = (os.environ.get("TRACEHOUSE_URL") or DEFAULT_URL) if url is None else url
        self._url = with_scheme(url).rstrip("/")
        self.url = without_credentials(self._url)
        key = (key or os.environ.get("TRACEHOUSE_KEY") or "").strip()
        if not re.fullmatch("[!-~]*", key):
            raise NotSendable("this is no API key: it has characters that no key has. Copy it again, without quotes")
        self.has_key = bool(key)
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        try:
            check_address(self._url)
        except WrongAddress as error:
            raise NotSendable(
                f"url (or TRACEHOUSE_URL) is {without_credentials(url)!r}, and {error}: write it as http://HOST:PORT"
            ) from error
        except httpx.InvalidURL as error:
            raise self.unreachable(error) from error

    def client_options(self) -> dict[str, Any]:
        """Return the arguments for a client of httpx."""
        return {"base_url": self._url, "timeout": _TIMEOUT, "headers": self._headers}

    def of(self, path: str) -> str:
        """Return the address under which a browser finds a path of the service."""
        return f"{self.url}{path}"

    def request_options(self, ask: Ask) -> dict[str, Any]:
        """Return the arguments for a request of httpx."""
        options: dict[str, Any] = {"params": ask.params, "headers": dict(ask.headers)}
        if ask.files:
            options["files"] = list(ask.files)
        elif ask.content is not None:
            options["content"] = ask.content
        elif ask.json is not None:
            options["content"] = write_document(ask.json)
            options["headers"]["content-type"] = "application/json"
        return options

    def error_of(self, status: int, headers: Mapping[str, str], content: bytes) -> ClientError:
        """Return the error for a reply that says that it did not go well."""
        problem = read_problem(content)
        if problem is None:
            return UnexpectedReply(
                f"{self.url} answers with {status}, and not as a Tracehouse service does: give the service's own "
                "address as url=, or in TRACEHOUSE_URL"
            )
        if status == 401:
            problem["remedy"] = self._remedy_of_key()
        if status == 404 and (note := explain_path(self._url)) is not None:
            problem["remedy"] = f"{problem['remedy']}. {note}" if problem.get("remedy") else note
        return refusal(status, problem, _seconds(headers.get("retry-after")))

    def unreachable(self, error: Exception) -> ServiceUnreachable:
        """Return the error for a service that does not answer."""
        why = why_unreachable(self.url, error)
        return ServiceUnreachable(
            f"no Tracehouse service answers at {self.url} ({why}). Start one with `tracehouse serve`, or say where "
            'it is: Client(url="http://HOST:PORT"), or TRACEHOUSE_URL. One that is starting is waited for with '
            "Client(wait_s=60)"
        )

    def _remedy_of_key(self) -> str:
        known = (
            "the key that was sent is not known here: give another one as Client(key=…)"
            if self.has_key
            else "give a key as Client(key=…)"
        )
        return f"{known} or in TRACEHOUSE_KEY. `tracehouse keys create NAME`, where the service runs, makes one"


def without_credentials(url: str) -> str:
    """Return the address as it is shown: without the name and the password that it may have for a proxy."""
    return printable_line(re.sub("(?<=://)[^/?#]*@", "", url))


class Connection:
    """Runs flows, and waits for each reply. It may be used from several threads."""

    def __init__(self, address: Address, transport: httpx.BaseTransport | None = None, wait_s: float = 0) -> None:
        self.address = address
        self._readiness = Readiness(address.url, wait_s)
        self._http = httpx.Client(**address.client_options(), transport=transport, event_hooks=pace.HOOKS)

    def run(self, flow: Flow[_T]) -> _T:
        """Run a flow to its end, and return its result. Raises ClientError."""
        try:
            ask = next(flow)
            while True:
                try:
                    reply = self._send(ask)
                except ClientError as error:
                    ask = flow.throw(error)
                else:
                    ask = flow.send(reply)
        except StopIteration as ended:
            result: _T = ended.value
            return result
        finally:
            flow.close()  # what it has opened, such as a line of progress, ends with it

    def close(self) -> None:
        self._http.close()

    def _send(self, ask: Ask) -> Reply:
        """Send a request, and again if the service says to come back soon. Raises ClientError."""
        tries = 1
        while not isinstance(answer := self._try(ask, tries), Reply):
            time.sleep(answer)
            tries += 1
        return answer

    def _try(self, ask: Ask, tries: int) -> Reply | float:
        """Send a request, and return its reply, or after how many seconds it may be sent again. Raises ClientError."""
        options = self.address.request_options(ask)
        try:
            wait_until_ready(self._http, self._readiness)
            with self._http.stream(ask.method, ask.path, **options) as response:
                if not response.is_success:
                    content = response.read()
                    if (pause_s := pause_before_next(response, tries)) is not None:
                        return pause_s
                    raise self.address.error_of(response.status_code, response.headers, content)
                if ask.on_line is not None:
                    for line in response.iter_lines():
                        ask.on_line(line)
                elif ask.on_bytes is not None:
                    for piece in response.iter_bytes():
                        ask.on_bytes(piece)
                else:
                    response.read()
                return _reply_of(ask, response)
        except httpx.DecodingError as error:
            raise UnexpectedReply(f"the answer of {self.address.url} is damaged ({error})") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self.address.unreachable(error) from error


class AsyncConnection:
    """Runs flows in an event loop."""

    def __init__(self, address: Address, transport: httpx.AsyncBaseTransport | None = None, wait_s: float = 0) -> None:
        self.address = address
        self._readiness = Readiness(address.url, wait_s)
        self._http = httpx.AsyncClient(**address.client_options(), transport=transport, event_hooks=pace.HOOKS_ASYNC)

    async def run(self, flow: Flow[_T]) -> _T:
        """Run a flow to its end, and return its result. Raises ClientError."""
        try:
            ask = next(flow)
            while True:
                try:
                    reply = await self._send(ask)
                except ClientError as error:
                    ask = flow.throw(error)
                else:
                    ask = flow.send(reply)
        except StopIteration as ended:
            result: _T = ended.value
            return result
        finally:
            flow.close()  # what it has opened, such as a line of progress, ends with it

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, ask: Ask) -> Reply:
        """Send a request, and again if the service says to come back soon. Raises ClientError."""
        tries = 1
        while not isinstance(answer := await self._try(ask, tries), Reply):
            await asyncio.sleep(answer)
            tries += 1
        return answer

    async def _try(self, ask: Ask, tries: int) -> Reply | float:
        """Send a request, and return its reply, or after how many seconds it may be sent again. Raises ClientError."""
        options = self.address.request_options(ask)
        try:
            while self._readiness.is_due:
                pause_s = self._readiness.pause_after(await probe_async(self._http))
                await asyncio.sleep(pause_s or 0)
            async with self._http.stream(ask.method, ask.path, **options) as response:
                if not response.is_success:
                    content = await response.aread()
                    if (again_s := pause_before_next(response, tries)) is not None:
                        return again_s
                    raise self.address.error_of(response.status_code, response.headers, content)
                if ask.on_line is not None:
                    async for line in response.aiter_lines():
                        ask.on_line(line)
                elif ask.on_bytes is not None:
                    async for piece in response.aiter_bytes():
                        ask.on_bytes(piece)
                else:
                    await response.aread()
                return _reply_of(ask, response)
        except httpx.DecodingError as error:
            raise UnexpectedReply(f"the answer of {self.address.url} is damaged ({error})") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self.address.unreachable(error) from error


class WrongAddress(httpx.InvalidURL):
    """An address that is well formed, and that of no service: `str()` says what is wrong with it."""


def with_scheme(address: str) -> str:
    return address if "://" in address else f"http://{address}"


def check_address(address: str) -> None:
    """Raise httpx.InvalidURL for what no service can have as its address: asking it would end in a UnicodeError.

    Raises WrongAddress for a scheme, a port or a part that would be asked for something else than was meant.
    """
    try:
        url = httpx.URL(address)
        url.host.encode()  # httpx decodes a name such as xn--a here
        url.raw_host.decode("ascii").encode("idna")
    except UnicodeError as error:
        raise httpx.InvalidURL(str(error)) from error
    if url.scheme not in ("http", "https"):
        raise WrongAddress(f"a service is asked over http or https, and not over {printable_line(url.scheme)!r}")
    if not url.host:
        raise WrongAddress("it names no host")
    if url.port is not None and not 0 < url.port <= _PORT_MAX:
        raise WrongAddress(f"a port is a number from 1 to {_PORT_MAX}")
    if "?" in address or "#" in address:
        raise WrongAddress('an address of a service has nothing after "?" or "#"')


def explain_path(address: str) -> str | None:
    """Return what may be wrong where nothing is found, because the address has a path; None if it has none."""
    path = httpx.URL(address).path.rstrip("/")
    if not path:
        return None
    return f"The address itself has the path {printable_line(path)}: leave it out, unless a proxy has the service there"


def why_unreachable(url: str, error: Exception) -> str:
    """Return why nobody answers at an address, and the address that may be meant if it asks for TLS in vain."""
    why = printable_line(str(error)) or type(error).__name__
    errors_of_tls = [one for one in causes_of(error) if isinstance(one, ssl.SSLError)]
    if not errors_of_tls or isinstance(errors_of_tls[0], ssl.SSLCertVerificationError):
        return why
    return f"{why}; a service without TLS has the address http{url.removeprefix('https')}"


def _reply_of(ask: Ask, response: httpx.Response) -> Reply:
    is_streamed = ask.on_line is not None or ask.on_bytes is not None
    return Reply(response.headers, b"" if is_streamed else response.content)


def pause_before_next(response: httpx.Response, tries: int) -> float | None:
    """Return how long to wait before a request that was refused is sent again; None if it is not.

    Only what does no more when it is sent twice is sent again.
    """
    request = response.request
    is_repeatable = request.method == "GET" or IDEMPOTENCY_KEY in request.headers
    if response.status_code != httpx.codes.SERVICE_UNAVAILABLE or tries >= TRIES_MAX or not is_repeatable:
        return None
    pause_s = _seconds(response.headers.get("retry-after"))
    return pause_s if pause_s is not None and pause_s <= PAUSE_MAX_S else None


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() and len(text) <= _SECONDS_MAX_DIGITS else None
