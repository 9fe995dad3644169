"""`tracehouse.Client`: have models traced by a Tracehouse service, and ask those that it serves."""

import warnings
from collections.abc import Awaitable, Callable
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self

import httpx

from tracehouse.client import inference, requests
from tracehouse.client.connection import Address, AsyncConnection, Connection
from tracehouse.client.flow import Flow, get_json
from tracehouse.client.forms import EnvironmentsForm
from tracehouse.client.inference import Contracts
from tracehouse.client.keys import KeyFlows
from tracehouse.client.methods import awaitable, describe, waiting
from tracehouse.client.progress import explain_waiting
from tracehouse.client.registry import RegistryFlows
from tracehouse.client.requests import Submitted
from tracehouse.client.trace import AsyncTrace, Trace

_P = ParamSpec("_P")


class LeftBehind(UserWarning):
    """Something of the model was left behind or replaced when it was sent."""


class CannotBegin(UserWarning):
    """The service has nobody who could trace the model, so the trace request waits."""


class Models(RegistryFlows):
    """The models that the service has. To change or delete one needs a key with the scope `admin`, if keys are on."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    list = waiting(RegistryFlows._list)
    get = waiting(RegistryFlows._get)
    promote = waiting(RegistryFlows._promote)
    set_alias = waiting(RegistryFlows._set_alias)
    set_bitwise = waiting(RegistryFlows._set_bitwise)
    set_serving = waiting(RegistryFlows._set_serving)
    delete_alias = waiting(RegistryFlows._delete_alias)
    delete_version = waiting(RegistryFlows._delete_version)
    delete = waiting(RegistryFlows._delete)


class AsyncModels(RegistryFlows):
    """The models that the service has; each method is awaited."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    list = awaitable(RegistryFlows._list)
    get = awaitable(RegistryFlows._get)
    promote = awaitable(RegistryFlows._promote)
    set_alias = awaitable(RegistryFlows._set_alias)
    set_bitwise = awaitable(RegistryFlows._set_bitwise)
    set_serving = awaitable(RegistryFlows._set_serving)
    delete_alias = awaitable(RegistryFlows._delete_alias)
    delete_version = awaitable(RegistryFlows._delete_version)
    delete = awaitable(RegistryFlows._delete)


class Keys(KeyFlows):
    """The API keys of the service. All need a key with the scope `admin`, if keys are on."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    list = waiting(KeyFlows._list)
    create = waiting(KeyFlows._create)
    revoke = waiting(KeyFlows._revoke)


class AsyncKeys(KeyFlows):
    """The API keys of the service; each method is awaited."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    list = awaitable(KeyFlows._list)
    create = awaitable(KeyFlows._create)
    revoke = awaitable(KeyFlows._revoke)


class _ClientFlows:
    """What both clients can ask, as flows."""

    def __init__(self) -> None:
        self._contracts = Contracts()

    def _infer(
        self, model: str, /, *inputs: Any, method: str | None = None, seed: int | None = None, **named: Any
    ) -> Flow[Any]:
        """Return what a model answers, nested as its answer is: tensors of torch for tensors, else arrays.

        `model` is a name, `name@alias` or `name:version`. `inputs` and `named` are the arguments of the model, with
        tensors, arrays, or numbers in lists. `method` is the traced method to call, and `seed` seeds random numbers.

        Raises OutsideContract for inputs that the trace is not right for.
        """
        answer = yield from inference.infer(self._contracts, model, inputs, named, method, seed)
        return answer

    def _list_environments(self) -> Flow[dict[str, dict[str, str]]]:
        """Return the environments of the service, each with the versions of its packages."""
        document = yield from get_json("/environments", EnvironmentsForm)
        return {
            one["name"]: {package["name"]: package["version"] for package in one["packages"]}
            for one in document["environments"]
        }

    def _find_trace(self, request_id: str) -> Flow[Submitted]:
        request = yield from requests.read(request_id)
        return requests.submitted_earlier(request)

    def _find_traces(self, limit: int, state: requests.State | None, model: str | None) -> Flow[list[Submitted]]:
        listed = yield from requests.read_newest(limit, state, model)
        return [requests.submitted_earlier(request) for request in listed]


def _tracing(flow: Callable[_P, Flow[Submitted]]) -> Callable[Concatenate["Client", _P], Trace]:
    """Return the method that submits, and returns the handle."""

    @wraps(flow)
    def run(self: "Client", /, *args: _P.args, **kwargs: _P.kwargs) -> Trace:
        submitted = self._connection.run(flow(*args, **kwargs))
        _warn_about(submitted)
        return Trace(self._connection, submitted, self._contracts)

    return describe(run, flow, Trace)


def _tracing_async(
    flow: Callable[_P, Flow[Submitted]],
) -> Callable[Concatenate["AsyncClient", _P], Awaitable[AsyncTrace]]:
    @wraps(flow)
    async def run(self: "AsyncClient", /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncTrace:
        submitted = await self._connection.run(flow(*args, **kwargs))
        _warn_about(submitted)
        return AsyncTrace(self._connection, submitted, self._contracts)

    return describe(run, flow, AsyncTrace)


def _warn_about(submitted: Submitted) -> None:
    for note in submitted.submission.notes:
        warnings.warn(note, LeftBehind, stacklevel=3)
    if (why := explain_waiting(submitted.request)) is not None:
        warnings.warn(f"the trace request waits: {why}; trace.cancel() cancels it", CannotBegin, stacklevel=3)


class Client(_ClientFlows):
    """A client of a Tracehouse service. It may be used from several threads.

    `url` is where the service is, by default TRACEHOUSE_URL or http://127.0.0.1:8000; `key` an API key, by default
    TRACEHOUSE_KEY. A service that is starting is waited for up to `wait_s` seconds, when it is first asked.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        wait_s: float = 0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__()
        self._connection = Connection(Address(url, key), transport, wait_s)
        self.models = Models(self._connection)
        self.keys = Keys(self._connection)

    trace = _tracing(requests.trace)
    infer = waiting(_ClientFlows._infer)
    environments = waiting(_ClientFlows._list_environments)

    def get_trace(self, request_id: str) -> Trace:
        """Return the handle of a trace request that was submitted earlier, by its id."""
        return Trace(self._connection, self._connection.run(self._find_trace(request_id)), self._contracts)

    def list_traces(
        self, limit: int = 20, *, state: requests.State | None = None, model: str | None = None
    ) -> list[Trace]:
        """Return the handles of the newest trace requests, the newest first: of one state, or for one model's name."""
        listed = self._connection.run(self._find_traces(limit, state, model))
        return [Trace(self._connection, one, self._contracts) for one in listed]

    def close(self) -> None:
        """Close the connections to the service."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_ClientFlows):
    """A client for an event loop: what `Client` does, awaited."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        wait_s: float = 0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__()
        self._connection = AsyncConnection(Address(url, key), transport, wait_s)
        self.models = AsyncModels(self._connection)
        self.keys = AsyncKeys(self._connection)

    trace = _tracing_async(requests.trace)
    infer = awaitable(_ClientFlows._infer)
    environments = awaitable(_ClientFlows._list_environments)

    async def get_trace(self, request_id: str) -> AsyncTrace:
        """Return the handle of a trace request that was submitted earlier, by its id."""
        return AsyncTrace(self._connection, await self._connection.run(self._find_trace(request_id)), self._contracts)

    async def list_traces(
        self, limit: int = 20, *, state: requests.State | None = None, model: str | None = None
    ) -> list[AsyncTrace]:
        """Return the handles of the newest trace requests, the newest first: of one state, or for one model's name."""
        listed = await self._connection.run(self._find_traces(limit, state, model))
        return [AsyncTrace(self._connection, one, self._contracts) for one in listed]

    async def close(self) -> None:
        """Close the connections to the service."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
