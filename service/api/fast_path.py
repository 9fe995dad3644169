"""The fast path: small requests for inference are answered before there is a task or an app for them.

It gives the answers that the routes in `service.api.inference` and `service.api.oip.infer` give, made by the same
functions, and only successes: whatever it does not know, refuses or would have to wait for goes to the app, which
finds the request as it came. Nothing here reads the database, changes threads or awaits.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from time import perf_counter

from fastapi.security.utils import get_authorization_scheme_param
from uvicorn._types import HTTPScope

from service.api import inference_json
from service.api.context import AppContext
from service.api.http import access_log
from service.api.http.access import COUNTED, take_allowance
from service.api.http.body import SMALL_BYTES, parse_json
from service.api.http.fast_exchange import HandOver, Reply
from service.api.http.local import is_this_machine
from service.api.http.places import Place
from service.api.http.security_headers import SECURITY_HEADERS
from service.api.inference import FAILURE, INFER, reply_members
from service.api.inference_forms import BY_MEDIA_TYPE, Form
from service.api.inference_json import Expected, InferenceBody
from service.api.oip.binary_body import encoding_of_reply, split_body
from service.api.oip.infer import WholeReply, whole_reply
from service.api.oip.metadata import method_of
from service.api.oip.model_ref import MODEL, MODEL_VERSION
from service.api.oip.request import ProtocolRequest
from service.api.output_tensor import reply_pieces
from service.api.tensor_bodies import read_small
from service.api.tensor_replies import choose_form, describe_in_headers, forms_of, wanted_outputs, write_form
from service.domain.api_key import DEFAULT_TENANT, ApiKey, Scope
from service.log import http_request_id
from service.serving.inference import InferenceResult, ServedModel
from service.serving.pending_call import PendingCall
from tracehouse.errors import ServiceError
from tracehouse.tensors.tensor import Tensor

log = logging.getLogger(__name__)

# The headers with which a request may be answered here: those that are read below, and those that change no answer.
# All others are the app's, so that nothing that it reads is overlooked here.
_HEADERS = frozenset(
    {
        b"accept", b"accept-encoding", b"accept-language", b"authorization", b"connection", b"content-length",
        b"content-type", b"host", b"inference-header-content-length", b"user-agent", b"x-request-id",
    }
)  # fmt: skip
_JSON_TYPES = (None, b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8")
# Content types of `/infer`. A picture is decoded in a process, for which the app waits.
_FORMS: dict[bytes | None, Form] = {
    **dict.fromkeys(_JSON_TYPES, Form.JSON),
    **{kind.encode(): form for kind, form in BY_MEDIA_TYPE.items() if not form.is_picture},
}
# JSON has up to six characters for a byte of a tensor, `false,`. A longer reply waits for its client, in the app.
_ANSWER_MAX_BYTES = SMALL_BYTES // 6
_PATH_MAX = 512
_LENGTH_DIGITS_MAX = 9
_JSON_BYTES = b"inference-header-content-length"
_REFERENCE = r"[A-Za-z0-9._@:-]+"
_PATH = re.compile(
    rf"/infer/(?P<model>{_REFERENCE})|/v2/models/(?P<name>{_REFERENCE})(?:/versions/(?P<version>{_REFERENCE}))?/infer"
)
_METHOD = "forward"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request asks for; `whole` makes the reply of the answer."""

    method: str
    tensors: list[Tensor]
    outputs: list[str]
    seed: int | None
    whole: Callable[[InferenceResult], WholeReply]


@dataclass(frozen=True, slots=True)
class _Route:
    """The model that a path names, and whether the path is one of the Open Inference Protocol."""

    reference: str
    is_protocol: bool
    path: str  # as the app's route has it


class FastPath:
    """Takes requests whose heads are plain. `has_cors`: other origins' pages may ask, so that replies vary."""

    def __init__(self, context: AppContext, *, has_cors: bool) -> None:
        self._context = context
        self._after_type = b"vary: Origin\r\n" if has_cors else b""

    def read(self, scope: HTTPScope) -> "PlainHead | None":
        """Return the head of a request if it is plain; its body has not arrived yet."""
        if scope["method"] != "POST" or scope["query_string"] or scope["http_version"] != "1.1" or scope["root_path"]:
            return None
        route = _route_of(scope["path"])
        if route is None:
            return None
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name not in _HEADERS or name in headers:
                return None
            headers[name] = value
        length = headers.pop(b"content-length", b"")
        if not length.isdigit() or len(length) > _LENGTH_DIGITS_MAX:
            return None
        head = PlainHead(self._context, scope["path"], route, headers, self._after_type)
        return head if head.is_answerable and head.takes(int(length)) else None


class PlainHead:
    """What a head asks but for the length of the body, worked out once for all requests that have the same."""

    def __init__(
        self, context: AppContext, path: str, route: _Route, headers: Mapping[bytes, bytes], after_type: bytes
    ) -> None:
        def text(name: bytes) -> str:
            return headers.get(name, b"").decode("latin-1")

        self.context = context
        self.path = path
        self.route = route
        self.after_type = after_type
        self.form = _FORMS.get(headers.get(b"content-type"))
        self.wanted = [] if route.is_protocol else forms_of(text(b"accept"))
        self.request_id = text(b"x-request-id")
        self.json_bytes = text(_JSON_BYTES) if _JSON_BYTES in headers else None
        self.names_this_machine = is_this_machine(text(b"host"))
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
    """One request. Whatever goes wrong before its reply begins, the app is asked instead, and told the `state`."""

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

    def answer(self, body: bytes, reply: Reply, hand_over: HandOver) -> None:
        """Call `reply` with the headers and the body of a reply, or `hand_over`, now or later, once."""
        try:
            self._call = self._submit(body, reply, hand_over)
        except ServiceError:
            self._call = None  # the app finds the same error, and says it
        except Exception:
            log.exception("the fast path failed")
            self._call = None
        if self._call is None:
            hand_over()

    def leave(self) -> None:
        """The client has gone: what waits for its turn is not asked."""
        if self._call is not None:
            self._call.leave()

    def _submit(self, body: bytes, reply: Reply, hand_over: HandOver) -> PendingCall | None:
        """Ask for the answer; None if the app has to. Raises ServiceError."""
        self._place.admit(self._client)
        key, tenant = self._identify()
        if tenant is None:
            return None
        model = self._context.inference.remembered(tenant, self._head.route.reference, None)
        if model is None:
            return None
        if key is not None and not self._count(key):  # before the body costs anything
            return None
        asked = self._read_protocol(model, body) if self._head.route.is_protocol else self._read(model, body)
        if asked is None:
            return None
        limits = self._context.limits
        self._place.identify(tenant, limits.tenant_connections_max if self._context.keys_required else None)
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

    def _read(self, model: ServedModel, body: bytes) -> _Asked | None:
        """Return what is asked; None if the app has to unpack it. Raises what the route raises."""
        method = model.method(_METHOD)
        asked = self._read_body(method.once(Expected.of), body)
        if asked is None:
            return None
        wanted = self._head.wanted
        kind = wanted[0]
        if kind != Form.JSON:  # which can have all outputs
            kind = choose_form(wanted, wanted_outputs(method.contracts[0], asked.tensors, asked.outputs))

        def whole(answer: InferenceResult) -> WholeReply:
            if kind != Form.JSON:
                headers = describe_in_headers(kind, answer, asked.id)
                return WholeReply(write_form(BY_MEDIA_TYPE[kind], answer), kind, headers)
            members = reply_members(answer, asked.id)
            pieces = reply_pieces(members, answer.outputs, answer.complex_outputs)
            return WholeReply(b"".join(pieces), kind, {})

        return _Asked(_METHOD, asked.tensors, asked.outputs, asked.seed, whole)

    def _read_body(self, expected: Expected, body: bytes) -> InferenceBody | None:
        form = self._head.form
        assert form is not None  # as it is answerable
        if form is Form.JSON:
            return inference_json.read(parse_json(body), expected)
        tensors = read_small(form, memoryview(body), expected)
        if tensors is None:
            return None
        return InferenceBody(tensors, [spec.name for spec in expected.method.outputs], None, None)

    def _read_protocol(self, model: ServedModel, body: bytes) -> _Asked | None:
        """Return what is asked; None if the app has to limit the time. Raises what the route raises."""
        split = split_body(body) if self._head.json_bytes is None else split_body(body, self._head.json_bytes)
        asked = ProtocolRequest.parse(split.json, partial(_expect, model))
        if asked.parameters.timeout_s is not None:
            return None
        tensors = asked.read_tensors(split.tensors)

        def whole(answer: InferenceResult) -> WholeReply:
            return whole_reply(answer, asked.id, asked.outputs, None)

        return _Asked(asked.method, tensors, [*asked.outputs], asked.parameters.seed, whole)

    def _finish(self, answer: InferenceResult | Exception, asked: _Asked, reply: Reply, hand_over: HandOver) -> None:
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
        reply(self._reply_head(whole, request_id), whole.content)
        self._log(200, request_id)

    def _reply_head(self, whole: WholeReply, request_id: str) -> bytes:
        """Return the headers, in the order in which the app's middleware adds them."""
        lines = [f"{name.lower()}: {value}\r\n" for name, value in whole.headers.items()]
        lines.append(f"content-length: {len(whole.content)}\r\ncontent-type: {whole.media_type}\r\n")
        decided = [f"{name.lower()}: {value}\r\n" for name, value in self._decided.items()]
        return b"".join(
            (
                "".join(lines).encode("latin-1"),
                self._head.after_type,
                _SECURITY,
                "".join(decided).encode("latin-1"),
                f"x-request-id: {request_id}\r\n".encode("latin-1"),
            )
        )

    def _log(self, status: int, request_id: str = "") -> None:
        seconds = perf_counter() - self._began
        self._context.exchanges.count("POST", self._head.route.path, status, seconds)
        if not access_log.log.isEnabledFor(logging.INFO):
            return
        token = http_request_id.set(request_id)
        try:
            access_log.log_exchange("POST", self._head.path, status, seconds, self._caller)
        finally:
            http_request_id.reset(token)


_SECURITY = "".join(
    f"{name.lower()}: {value}\r\n" for name, value in {**SECURITY_HEADERS, "Cache-Control": "no-store"}.items()
).encode("latin-1")


def _expect(model: ServedModel, asked: str | None) -> tuple[str, Expected]:
    method = method_of(model.all_contracts, asked)
    return method, model.method(method).once(Expected.of)


def _route_of(path: str) -> _Route | None:
    return _remembered_route(path) if len(path) <= _PATH_MAX else None


@lru_cache(maxsize=4096)
def _remembered_route(path: str) -> _Route | None:
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    if found["model"] is not None:
        return _Route(found["model"], is_protocol=False, path=INFER)
    version = found["version"]
    if version is None:
        return _Route(found["name"], is_protocol=True, path=f"{MODEL}/infer")
    return _Route(f"{found['name']}:{version}", is_protocol=True, path=f"{MODEL_VERSION}/infer")
