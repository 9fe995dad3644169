"""Methods made of flows: the same operation waits in one client, and is awaited in the other."""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from tracehouse.client.connection import AsyncConnection, Connection
from tracehouse.client.flow import Flow

_P = ParamSpec("_P")
_T = TypeVar("_T")


def waiting(flow: Callable[Concatenate[Any, _P], Flow[_T]]) -> Callable[Concatenate[Any, _P], _T]:
    """Return the method that runs this flow, and waits for its result."""

    @wraps(flow)
    def run(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        connection: Connection = self._connection
        return connection.run(flow(self, *args, **kwargs))

    return describe(run, flow)


def awaitable(flow: Callable[Concatenate[Any, _P], Flow[_T]]) -> Callable[Concatenate[Any, _P], Awaitable[_T]]:
    """Return the method that runs this flow in an event loop."""

    @wraps(flow)
    async def run(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        connection: AsyncConnection = self._connection
        return await connection.run(flow(self, *args, **kwargs))

    return describe(run, flow)


_Method = TypeVar("_Method", bound=Callable[..., Any])


def describe(method: _Method, flow: Callable[..., Any], returns: Any = None) -> _Method:
    """Give a method the signature that a person reads: what it takes, and what comes of the flow.

    `returns` is given for a flow that is no method.
    """
    signature = inspect.signature(flow)
    parameters = [*signature.parameters.values()]
    if returns is None:
        returned = get_args(signature.return_annotation)
        returns = returned[-1] if returned else signature.return_annotation
    else:
        parameters.insert(0, inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY))
        parameters[1] = parameters[1].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    vars(method)["__signature__"] = signature.replace(parameters=parameters, return_annotation=returns)
    return method
