"""The other end of a call: who calls, as its metadata shows, and the place that the call takes.

Who calls is known before any of the message is read, so that nobody without a key has the service hold one.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn
from urllib.parse import unquote

from grpc import aio

from service import telemetry
from service.api.context import AppContext
from service.api.grpc.statuses import details_of, metadata_of, problem_of_call, status_code_of
from service.api.http.access import Caller, check_allowance, take_allowance
from service.api.http.access_log import choose_request_id
from service.api.http.bearer import authenticate_by
from service.api.http.places import Place, Places
from service.api.http.tenant import STRANGERS
from service.api.problems import TooManyFromAddress
from service.domain.api_key import DEFAULT_TENANT, ApiKey, Scope
from tracehouse.errors import ServiceError


class Peer:
    """Has a place from the beginning until `leave`."""

    def __init__(
        self, path: str, context: AppContext, rpc: "aio.ServicerContext[bytes, bytes]", places: Places
    ) -> None:
        self.path = path
        self.rpc = rpc
        self.tenant = STRANGERS
        self.logged: dict[str, str] = {}
        self._context = context
        self._places = places
        self._metadata = rpc.invocation_metadata() or ()
        self.request_id = choose_request_id(next(iter(self._sent("x-request-id")), ""))
        self.trailing = {"x-request-id": self.request_id}
        self._address = _address(rpc.peer())
        self._made_room = False
        self._on_made_room: Callable[[], object] = lambda: None
        self.place = places.enter(self._address, self._make_room)
        self.place.begin()

    async def admit(self, scope: Scope | None) -> None:
        """Find out who calls, and count the request. Without a `scope`, anybody may call.

        Raises what `service.api.http.access` raises, and TooManyConnections.
        """
        if scope is None:
            self.place.admit(self._address)
        elif not self._context.keys_required:
            self.tenant = DEFAULT_TENANT
            self.place.identify(self.tenant, None)
        else:
            await self._authenticate(scope)

    async def check_key(self, scope: Scope) -> ApiKey | None:
        """Return the key of a peer that was admitted; None while keys are off. Raises why it is none now."""
        if not self._context.keys_required:
            return None
        key = await authenticate_by(self._sent("authorization"), self._context)
        Caller(key.tenant, key).require(scope)
        return key

    def count(self, key: ApiKey | None) -> None:
        """Count one more request of the key. Raises RateLimited."""
        if key is None:
            return
        allowance = take_allowance(self._context, key)
        self.trailing.update({name.lower(): value for name, value in allowance.headers.items()})
        check_allowance(allowance)

    def resume_place(self) -> Place:
        """Return the own place for another request, after `place.end`."""
        self.place.begin()
        self.place.identify(self.tenant, self._tenant_places_max)
        return self.place

    def find_place(self) -> Place | None:
        """Return a place for a request beside others; None if somebody would have to make room for it."""
        if not self._places.has_room(self.tenant, self._tenant_places_max):
            return None
        place = self._places.enter(self._address, lambda: None)  # a place with a request makes no room
        place.begin()
        place.identify(self.tenant, self._tenant_places_max)
        return place

    def on_made_room(self, do: Callable[[], object]) -> None:
        """Have this done when others get the place, which then makes room because no request has it."""
        self._on_made_room = do

    async def abort(self, error: ServiceError) -> NoReturn:
        """End the call with what is wrong. Raises AbortError."""
        self._context.exchanges.count_problem(error)
        problem = problem_of_call(error, self.path, self.request_id)
        metadata = tuple({**self.trailing, **metadata_of(error, problem)}.items())
        await self.rpc.abort(status_code_of(problem), details_of(problem), metadata)
        raise AssertionError("abort raises")

    def leave(self) -> None:
        self.place.leave()

    @property
    def trace_context(self) -> dict[str, str]:
        """Return the span that the caller sent, if any."""
        return {name: value for name in telemetry.CONTEXT for value in self._sent(name)[:1]}

    @property
    def _tenant_places_max(self) -> int | None:
        return self._context.limits.tenant_connections_max if self._context.keys_required else None

    async def _authenticate(self, scope: Scope) -> None:
        key = await authenticate_by(self._sent("authorization"), self._context)
        if self._made_room:
            raise TooManyFromAddress("others needed the place of this call")
        self.tenant = key.tenant
        self.logged.update(key=key.prefix, tenant=key.tenant)
        self.count(key)
        self.place.identify(key.tenant, self._tenant_places_max)
        Caller(key.tenant, key).require(scope)

    def _sent(self, name: str) -> Sequence[str]:
        return [value for key, value in self._metadata if key == name and isinstance(value, str)]

    def _make_room(self) -> None:
        self._made_room = True
        self._on_made_room()


def _address(peer: str) -> str:
    """Return the address in what gRPC calls a peer: `ipv4:10.0.0.5:43210` or `ipv6:%5B::1%5D:43210`."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")
