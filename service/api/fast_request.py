"""A fast request, which is answered without the app, and the head that it shares with those before it."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NamedTuple

from fastapi.security.utils import get_authorization_scheme_param

from service.api import inference_json
from service.api.context import AppContext
from service.api.http import access_log
from service.api.http.access import COUNTED, take_allowance
from service.api.http.beginnings import Beginnings
from service.api.http.body import SMALL_BYTES, parse_json
from service.api.http.fast_exchange import HandOver, Reply
from service.api.http.local import is_this_machine
from service.api.http.places import Place
from service.api.http.security_headers import SECURITY_HEADERS
from service.api.inference import FAILURE, reply_members
from service.api.inference_forms import BY_MEDIA_TYPE, Form
from service.api.inference_json import Expected, InferenceBody
from service.api.oip.binary_body import encoding_of_reply, split_body
from service.api.oip.infer import WholeReply, whole_reply
from service.api.oip.metadata import method_of
from service.api.oip.request import ProtocolRequest
from service.api.output_tensor import reply_pieces
from service.api.problems import PROBLEM_JSON, document_of, headers_of, log_failure, status_of
from service.api.repeated_body import LastBody, RepeatedBody
from service.api.tensor_bodies import read_small
from service.api.tensor_replies import choose_form, describe_in_headers, forms_of, wanted_outputs, write_form
from service.domain.api_key import DEFAULT_TENANT, ApiKey, Scope
from service.log import http_request_id
from service.serving.inference import InferenceResult, ServedModel
from service.serving.pending_call import PendingCall
from service.serving.served_method import ServedMethod
from tracehouse.errors import ServiceError
from tracehouse.tensors.tensor import Tensor

log = logging.getLogger(__name__)

_JSON_TYPES = (None, b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8")
# Content types of `/infer`. A picture is decoded in a process, for which the app waits.
_FORMS: dict[bytes | None, Form] = {
    **dict.fromkeys(_JSON_TYPES, Form.JSON),
    **{kind.encode(): form for kind, form in BY_MEDIA_TYPE.items() if not form.is_picture},
}
# JSON has up to six characters for a byte of a tensor, `false,`. A longer reply waits for its client, in the app.
_ANSWER_MAX_BYTES = SMALL_BYTES // 6
_JSON_BYTES = b"inference-header-content-length"
_METHOD = "forward"


@dataclass(frozen=True, slots=True)
class Route:
    """The model that a path names, and whether the path is one of the Open Inference Protocol."""

    reference: str
    is_protocol: bool
    path: str  # as the app's route has it


class Asked(NamedTuple):
    """What a request asks for; `whole` makes the reply of the answer. The contract was that of `served`."""

    served: ServedMethod
    method: str
    tensors: list[Tensor]
    outputs: list[str]
    seed: int | None
    whole: Callable[[InferenceResult], WholeReply]


class PlainHead:
    """What a head asks but for the length of the body, worked out once for all requests that have the same."""

    def __init__(
        self,
        context: AppContext,
        refusals: Beginnings,
        path: str,
        route: Route,
        headers: Mapping[bytes, bytes],
        after_type: bytes,
    ) -> None:
        def text(name: bytes) -> str:
            return headers.get(name, b"").decode("latin-1")

        self.context = context
        self.refusals = refusals
        self.path = path
        self.route = route
        self.after_type = after_type
        self.form = _FORMS.get(headers.get(b"content-type"))
        self.wanted = [] if route.is_protocol else forms_of(text(b"accept"))
        self.request_id = text(b"x-request-id")
        self.json_bytes = text(_JSON_BYTES) if _JSON_BYTES in headers else None
        self.names_this_machine = is_this_machine(text(b"host"))
        self.last_body: LastBody[Asked] = LastBody()
        self._accepts_encoding = route.is_protocol and encoding_of_reply(text(b"accept-encoding")) is not None
        scheme, token = get_authorization_scheme_param(text(b"authorization"))
        self.token = token if scheme.lower() == "bearer" else None

    @property
    def is_answerable(self) -> bool:
        """Whether such requests can be answered here."""
        if self.route.is_protocol:
            return not self._accepts_encoding
        return self.form is not None and bool(self.wanted)

    def takes(self, body_bytes: int) -> bool:
        limits = self.context.limits
        return body_bytes <= min(SMALL_BYTES, limits.request_max_bytes, limits.upload_max_bytes)

    def request(self, place: Place, client: str) -> "FastRequest":
        return FastRequest(self, place, client)


class FastRequest:
    """One request. Whatever goes wrong before its reply begins, the app is asked instead, and told the `state`.

    Where it could not be answered now, whatever it asks, it is refused here.
    """

    def __init__(self, head: PlainHead, place: Place, client: str) -> None:
        self.state: dict[str, object] = {}
        self._head = head
        self._context = head.context
        self._place = place
        self._client = client
        self._began = perf_counter()
        self._caller: dict[str, str] = {}  # as the access log names it
        self._decided: dict[str, str] = {}  # headers of the reply
        self._call: PendingCall | None = None
        self._is_refused = False

    def answer(self, body: bytes, reply: Reply, hand_over: HandOver) -> None:
        """Call `reply` with the status, the headers and the body of a reply, or `hand_over`, now or later, once."""
        exchanges = self._context.exchanges
        exchanges.begin("POST")

        def hand_over_counted() -> None:
            exchanges.hand_over("POST")
            hand_over()

        try:
            self._call = self._submit(body, reply, hand_over_counted)
        except ServiceError:
            self._call = None  # the app finds the same error, and says it
        except Exception:
            log.exception("the fast path failed")
            self._call = None
        if self._call is None and not self._is_refused:
            hand_over_counted()

    def leave(self) -> None:
        """The client has gone: what waits for its turn is not asked."""
        if self._call is not None:
            self._call.leave()
        elif self._is_refused and self._head.refusals.give_up(self._place.owner, self):
            self._log(access_log.GIVEN_UP)

    def _submit(self, body: bytes, reply: Reply, hand_over: HandOver) -> PendingCall | None:
        """Ask for the answer; None if the app has to, or if the request was refused. Raises ServiceError."""
        self._place.admit(self._client)
        key, tenant = self._identify()
        if tenant is None:
            return None
        model = self._context.inference.remembered(tenant, self._head.route.reference, None)
        if model is None:
            return None
        if key is not None and not self._count(key):  # before the body costs anything
            return None
        limits = self._context.limits
        self._place.identify(tenant, limits.tenant_connections_max if self._context.keys_required else None)
        try:
            self._context.inference.refuse_if_full(model)
        except ServiceError as error:
            self._is_refused = True
            refuse = partial(self._refuse, error, reply, hand_over)
            self._head.refusals.take(self._place.owner, self, refuse, asyncio.get_running_loop())
            return None
        asked = self._read(model, body)
        if asked is None:
            return None
        return self._context.inference.submit(
            model, asked.method, asked.tensors, asked.outputs, seed=asked.seed, answer_max_bytes=_ANSWER_MAX_BYTES,
            finish=lambda answer: self._finish(answer, asked, reply, hand_over),
        )  # fmt: skip

    def _identify(self) -> tuple[ApiKey | None, str | None]:
        """Return the key and the tenant; no tenant if the app has to find it."""
        if not self._context.keys_required:
            return None, DEFAULT_TENANT if self._head.names_this_machine else None
        token = self._head.token
        key = None if token is None else self._context.known_keys.remembered(token)
        if key is None or not key.allows(Scope.INFER):
            return None, None
        self._caller = {"key": key.prefix, "tenant": key.tenant}
        return key, key.tenant

    def _count(self, key: ApiKey) -> bool:
        """Count the request of the key, which the app must not count again; whether it comes not too early."""
        allowance = take_allowance(self._context, key)
        self.state[COUNTED] = allowance
        self._decided = allowance.headers
        return allowance.retry_after_s is None

    def _read(self, model: ServedModel, body: bytes) -> Asked | None:
        """Return what is asked; None if the app has to find it out. Raises what the route raises."""
        last = self._head.last_body
        if (found := last.read(body)) is not None:
            asked, tensor = found
            if model.method(asked.method) is asked.served:
                return asked._replace(tensors=[tensor])
        anew = self._read_protocol(model, body) if self._head.route.is_protocol else self._read_easily(model, body)
        if anew is not None and last.may_be_repeated:
            last.remember(anew._replace(tensors=[]), self._repeated(body, anew.tensors))
        return anew

    def _repeated(self, body: bytes, tensors: Sequence[Tensor]) -> RepeatedBody | None:
        """Return what is to be remembered of a body with these tensors; None if the next one is read anew."""
        if len(tensors) != 1:
            return None
        if not self._head.route.is_protocol:  # whose forms have no JSON before bytes, whatever the head says
            match self._head.form:
                case Form.JSON:
                    return RepeatedBody.of_json(body, tensors[0])
                case Form.BYTES:
                    return RepeatedBody.of_binary(b"", tensors[0])
                case _:
                    return None
        if self._head.json_bytes is None:
            return RepeatedBody.of_json(body, tensors[0])
        json_bytes = int(self._head.json_bytes)
        has_bytes = json_bytes and len(body) - json_bytes == len(tensors[0].data)
        return RepeatedBody.of_binary(body[:json_bytes], tensors[0]) if has_bytes else None

    def _read_easily(self, model: ServedModel, body: bytes) -> Asked | None:
        method = model.method(_METHOD)
        asked = self._read_body(method.once(Expected.of), body)
        if asked is None:
            return None
        kind, request_id = self._head.wanted[0], asked.id
        if kind != Form.JSON:  # which can have all outputs
            kind = choose_form(self._head.wanted, wanted_outputs(method.contracts[0], asked.tensors, asked.outputs))

        def whole(answer: InferenceResult) -> WholeReply:
            if kind != Form.JSON:
                headers = describe_in_headers(kind, answer, request_id)
                return WholeReply(write_form(BY_MEDIA_TYPE[kind], answer), kind, headers)
            members = reply_members(answer, request_id)
            return WholeReply(b"".join(reply_pieces(members, answer.outputs, answer.complex_outputs)), kind, {})

        return Asked(method, _METHOD, asked.tensors, asked.outputs, asked.seed, whole)

    def _read_body(self, expected: Expected, body: bytes) -> InferenceBody | None:
        form = self._head.form
        assert form is not None  # as it is answerable
        if form is Form.JSON:
            return inference_json.read(parse_json(body), expected)
        tensors = read_small(form, memoryview(body), expected)
        if tensors is None:
            return None
        return InferenceBody(tensors, [spec.name for spec in expected.method.outputs], None, None)

    def _read_protocol(self, model: ServedModel, body: bytes) -> Asked | None:
        """Return what is asked; None if the app has to limit the time."""
        split = split_body(body, self._head.json_bytes)
        asked = ProtocolRequest.parse(split.json, partial(_expect, model))
        if asked.parameters.timeout_s is not None:
            return None
        tensors, request_id, outputs = asked.read_tensors(split.tensors), asked.id, asked.outputs

        def whole(answer: InferenceResult) -> WholeReply:
            return whole_reply(answer, request_id, outputs, None)

        return Asked(model.method(asked.method), asked.method, tensors, [*outputs], asked.parameters.seed, whole)

    def _finish(self, answer: InferenceResult | Exception, asked: Asked, reply: Reply, hand_over: HandOver) -> None:
        if self._call is not None and self._call.is_left:
            self._log(access_log.GIVEN_UP)
            return
        if isinstance(answer, Exception):
            self.state[FAILURE] = answer  # the app says it, and does not ask again
            hand_over()
            return
        try:
            whole = asked.whole(answer)
        except Exception:
            log.exception("the fast path failed")
            hand_over()
            return
        if len(whole.content) > SMALL_BYTES:
            hand_over()
            return
        request_id = access_log.choose_request_id(self._head.request_id)
        head = _lines(whole.headers) + self._reply_head(len(whole.content), whole.media_type, request_id)
        reply(200, head, whole.content)
        self._log(200, request_id)

    def _refuse(self, error: ServiceError, reply: Reply, hand_over: HandOver) -> None:
        """Answer with the error as the app would, which takes many times as long for it."""
        request_id = access_log.choose_request_id(self._head.request_id)
        try:
            status, document = status_of(type(error)), document_of(error, self._head.path, request_id)
            head = self._reply_head(len(document), PROBLEM_JSON, request_id, headers_of(error))
        except Exception:
            log.exception("the fast path failed")
            hand_over()
            return
        reply(status, head, document)
        self._context.exchanges.count_problem(error)
        with _logged_as(request_id):
            log_failure(error)
        self._log(status, request_id)

    def _reply_head(
        self, byte_size: int, media_type: str, request_id: str, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Return the headers, in the order in which the app's middleware adds them."""
        return b"content-length: %d\r\ncontent-type: %b\r\n%b%b%b%bx-request-id: %b\r\n" % (
            byte_size,
            media_type.encode("latin-1"),
            _lines(headers or {}),
            self._head.after_type,
            _SECURITY,
            _lines(self._decided),
            request_id.encode("latin-1"),
        )

    def _log(self, status: int, request_id: str = "") -> None:
        seconds = perf_counter() - self._began
        self._context.exchanges.count("POST", self._head.route.path, status, seconds)
        if not access_log.log.isEnabledFor(logging.INFO):
            return
        with _logged_as(request_id):
            access_log.log_exchange("POST", self._head.path, status, seconds, self._caller)


@contextmanager
def _logged_as(request_id: str) -> Iterator[None]:
    token = http_request_id.set(request_id)
    try:
        yield
    finally:
        http_request_id.reset(token)


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join([f"{name.lower()}: {value}\r\n" for name, value in headers.items()]).encode("latin-1")


_SECURITY = _lines({**SECURITY_HEADERS, "Cache-Control": "no-store"})


def _expect(model: ServedModel, asked: str | None) -> tuple[str, Expected]:
    method = method_of(model.all_contracts, asked)
    return method, model.method(method).once(Expected.of)
