"""Two tenants: no route of one shows, changes or infers what is the other's.

Every operation of the OpenAPI document is asked. One that this file does not know how to fill in is a failure: a new
route says here what it is about.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product
from typing import Any
from uuid import uuid4

import httpx
import orjson
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.domain.live_check import LiveCheck, LiveCounterexample
from service.domain.trace_request import TraceRequest
from service.environments.environments import Environments
from service.sandbox.zygote import Zygote
from service.serving.inference import Inference
from service.serving.pool import Pool
from service.storage.database import Store
from tests.conftest import NewStore, Trace, keep
from tests.environments import add_environment
from tests.pool_limits import pool_limits
from tests.service.api.conftest import SIGNER, Tracer, authorized, local, make_context, spec, start_engine, with_limits
from tests.service.api.test_access import DOCUMENT, PROTECTED, PUBLIC
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.artifact.manifest import Artifact, GraphNode, Printout
from tracehouse.findings.verdict import Verdict

SECRET = f"s{uuid4().hex}"  # in the source, the log, the printouts, the picture and the manifest
NAME = f"m{uuid4().hex}"
OTHER_NAME = f"o{uuid4().hex}"
REJECTED = f"r{uuid4().hex}"
ALIAS = f"a{uuid4().hex}"
IDEMPOTENCY_KEY = f"i{uuid4().hex}"
OWN = spec("linear", options={"seed": 7})
# The operator installs them, and every tenant with a key may use them.
FOR_ALL_TENANTS = {"/environments", "/environments/{name}", "/limits"}
CALL = {"args": [[[1.0, 2.0]]]}
PROTOCOL_CALL = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}]}


class SecretTracer(Tracer):
    """Its artifacts answer, and what they say of themselves holds the secret."""

    def __init__(self, store: Store, trace: Trace) -> None:
        super().__init__(store)
        self._trace = trace

    def traced(self, request: TraceRequest) -> Artifact:
        import torch

        torch.manual_seed(request.spec.options.seed)
        artifact = self._trace(self._store.blobs, torch.nn.Linear(2, 2), torch.ones(1, 2))
        word = SECRET if SECRET in request.spec.model_dump_json() else "plain"
        node = GraphNode(operator="aten::relu", inputs=["x"], outputs=["y"], types=[""], file=f"{word}.py", line=1)
        shown = {"method": "forward", "submodule": "", "text": word, "inputs": ["x"], "outputs": ["y"], "nodes": [node]}
        printouts = [Printout(kind=kind, **shown) for kind in ("graph", "inlined_graph", "code")]
        self._store.events.append(request.id, "log", {"text": f"{word} was printed\n"})
        kept = keep(self._store.blobs, orjson.dumps([printout.model_dump() for printout in printouts]))
        told = keep(self._store.blobs, f"{word} was found".encode())
        found = Counterexample(
            method="forward", case=word, inputs=[], output="output", difference=word, arrays=told, test=told
        )
        changes: dict[str, Any] = {"printouts": kept, "entrypoint": f"{word}:Net", "counterexamples": [found]}
        if request.spec.model == REJECTED:
            changes["check"] = artifact.check.model_copy(update={"verdict": Verdict.REJECTED})
        return artifact.model_copy(update=changes)


@dataclass
class Things:
    """One of everything that a tenant can have, by the names of the parameters that ask for it."""

    headers: dict[str, str]
    paths: dict[str, list[str]]
    cursors: dict[str, str] = field(default_factory=dict)

    def words(self) -> set[str]:
        """What nobody else may be told, unless he said it himself."""
        names = {self.paths["name"][0], *self.paths["alias"], *self.paths["id"], *self.paths["digest"]}
        return {SECRET, IDEMPOTENCY_KEY, OTHER_NAME, *(name.removeprefix("sha256:") for name in names)}


@pytest.fixture(scope="module")
def store(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("tenants"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def client(store: Store, trace: Trace, tmp_path_factory: pytest.TempPathFactory, torch_zygote: Zygote) -> Iterator[Any]:
    pool = Pool(torch_zygote, store.blobs, pool_limits())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await pool.close(grace_s=0)

    engine = start_engine(store, SecretTracer(store, trace))
    context = make_context(store, engine, tmp_path_factory.getbasetemp())
    environments = Environments(tmp_path_factory.mktemp("environments"))
    add_environment(environments, "vision")
    context = replace(context, inference=Inference(store, pool), environments=environments, keys_required=True)
    context = with_limits(context, key_requests_per_minute=10**6)
    with local(create_app(context, lifespan)) as client:
        yield client
    engine.stop()


@pytest.fixture(scope="module")
def theirs(client: TestClient, store: Store) -> Things:
    """What the first tenant has: a model that was traced, with an alias, a trace request that is running, and one that
    ran in mode eager."""
    headers = authorized(store, tenant="first")
    source = {"files": {"net.py": f"# {SECRET}\n"}, "entrypoint": "net:Net"}
    wait = {"prefer": "wait=30", "idempotency-key": IDEMPOTENCY_KEY}
    traced = client.post("/trace", json=spec(NAME, source=source), headers={**headers, **wait}).json()
    assert traced["state"] == "succeeded", traced
    store.live_checks.add("first", NAME, 1, wrong_answer(store))
    running = client.post("/trace", json=spec("stays"), headers=headers).json()
    assert client.put(f"/models/{NAME}/aliases/{ALIAS}", json={"version": 1}, headers=headers).status_code == 200
    # A second of each, so that there is a second page.
    other = client.post("/trace", json=spec(OTHER_NAME), headers={**headers, "prefer": "wait=30"}).json()
    assert other["state"] == "succeeded", other
    ran = client.post("/trace", json=spec(mode="eager"), headers={**headers, "prefer": "wait=30"}).json()
    assert ran["state"] == "succeeded", ran
    cursors = {
        path: client.get(path, params={"limit": 1}, headers=headers).json()["next_cursor"]
        for path in ("/trace", "/models")
    }
    webhook = client.post("/webhooks", json={"url": f"https://{NAME}.example/"}, headers=headers).json()
    paths = {
        "id": [traced["id"], running["id"]],
        "id of /trace/{id}/outputs": [ran["id"]],
        "digest": [traced["artifacts"][0]["digest"]],
        "kind": ["graph", "inlined_graph", "code"],
        "name": [NAME],
        "alias": [ALIAS],
        "version": ["1"],
        "model": [NAME, f"{NAME}@{ALIAS}", f"{NAME}:1"],
        "code": ["model-not-found"],
        "kind of /findings/{kind}": ["baked-value"],
        "id of /signing-keys/{id}": [SIGNER.public_key.id],
        "id of /webhooks/{id}": [webhook["id"]],
        "number": ["0"],
        "name of /environments/{name}": ["vision"],
        "tenant": ["first"],
        "prefix": [headers["authorization"].removeprefix("Bearer ").rpartition("_")[0]],
    }
    return Things(headers, paths, cursors)


def wrong_answer(store: Store) -> LiveCheck:
    """What the live check keeps of a request whose answer was not the model's."""
    found = LiveCounterexample(
        digest="sha256:" + "0" * 64,
        method="forward",
        inputs=[],
        output="output",
        difference=SECRET,
        arrays=keep(store.blobs, f"{SECRET} was sent".encode()),
        found_at=datetime.now(UTC),
    )
    return LiveCheck(asked=1, different=1, counterexamples=[found])


def asked(theirs: Things, method: str, path: str) -> Iterator[httpx.Request]:
    """The operation, filled in with all that is theirs."""
    operation = DOCUMENT["paths"][path][method.lower()]
    parameters = operation.get("parameters", [])
    names = [each["name"] for each in parameters if each["in"] == "path"]
    headers = {
        "Prefer": "wait=30",
        "Idempotency-Key": IDEMPOTENCY_KEY,
        "If-Match": "*",
        "If-None-Match": None,
        "Last-Event-ID": "0",
    }
    query = {
        "limit": "100",
        "cursor": theirs.cursors.get(path),
        "state": None,
        "model": NAME,
        "after": None,
        "method": "forward",
        "device": "cpu",
        "submodule": "",
        "format": "torchscript" if path.endswith("/archive") else "json",
        "kind": "graph",
        "open": None,
        "tenant": "first",
        "form": None,
        "seed": None,
        "output": None,
        "id": None,
        "shape": None,
        "datatype": None,
        "files_of": theirs.paths["id"][0],
        "packed": None,
    }
    sent = {each["name"]: headers[each["name"]] for each in parameters if each["in"] == "header"}
    params = {each["name"]: query[each["name"]] for each in parameters if each["in"] == "query"}
    bodies: dict[tuple[str, str], Any] = {
        ("POST", "/trace"): OWN,
        ("POST", "/artifacts/{digest}/check"): {"budget": "deep"},
        ("POST", "/infer/{model}"): CALL,
        ("POST", "/infer"): {"model": NAME, **CALL},
        ("POST", "/v2/models/{name}/infer"): PROTOCOL_CALL,
        ("POST", "/v2/models/{name}/versions/{version}/infer"): PROTOCOL_CALL,
        ("PUT", "/models/{name}/aliases/{alias}"): {"version": 1},
        ("POST", "/models/{name}/promote"): {"version": 1},
        ("PATCH", "/models/{name}"): {"bitwise": True},
        ("POST", "/keys"): {"name": "own"},
        ("POST", "/webhooks"): {"url": "https://own.example/"},
        ("PUT", "/tenants/{tenant}/quotas"): {"queued_max": 1, "stored_max_bytes": 1},
    }
    body = bodies[method, path] if "requestBody" in operation else None
    for values in product(*(theirs.paths.get(f"{name} of {path}") or theirs.paths[name] for name in names)):
        filled = path.format(**dict(zip(names, values, strict=True)))
        # With and without what is optional: each may find what the other would not.
        for options in ({}, {name: value for name, value in params.items() if value is not None}):
            yield httpx.Request(
                method,
                f"http://localhost{filled}",
                params=options,
                json=body,
                headers={name: value for name, value in sent.items() if value is not None},
            )


def send(client: TestClient, who: dict[str, str], request: httpx.Request) -> Any:
    headers = {**request.headers, **who}
    return client.request(request.method, str(request.url), content=request.content, headers=headers)


def state_of(client: TestClient, theirs: Things) -> dict[str, Any]:
    """All that the first tenant can see, by its address."""
    seen: dict[str, Any] = {}
    for method, path in PROTECTED:
        # These two tell what the tenant itself has asked in between; and the others are for operators.
        if method != "GET" or path.endswith("/stats") or path in ("/audit", "/metrics") or path.startswith("/tenants"):
            continue
        for request in asked(theirs, method, path):
            # The events of one that runs do not end.
            if not (path.endswith("/events") and theirs.paths["id"][1] in str(request.url)):
                answer = send(client, theirs.headers, request)
                assert answer.status_code == 200, (path, answer.text)
                seen[str(request.url)] = answer.content
    return seen


def answers(client: TestClient, theirs: Things, model: str = NAME) -> Any:
    answer = client.post(f"/infer/{model}", json=CALL, headers=theirs.headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"]


def test_whoever_has_it_sees_it(client: TestClient, theirs: Things) -> None:
    """Without this, the other tests would pass for a service that shows nobody anything."""
    shown = b"".join(state_of(client, theirs).values()).decode(errors="replace")
    for word in theirs.words() - {IDEMPOTENCY_KEY}:
        assert word in shown
    for part in ("source", "log", "events"):
        assert SECRET in client.get(f"/trace/{theirs.paths['id'][0]}/{part}", headers=theirs.headers).text
    digest = theirs.paths["digest"][0]
    for part in ("", "/printouts/graph", "/printouts/code", "/graph.svg"):
        assert SECRET in client.get(f"/artifacts/{digest}{part}", headers=theirs.headers).text, part
    for model in theirs.paths["model"]:
        answers(client, theirs, model)


def test_no_route_of_one_tenant_shows_changes_or_infers_what_is_the_others(
    client: TestClient, store: Store, theirs: Things
) -> None:
    before, answered = state_of(client, theirs), answers(client, theirs)
    other = authorized(store, tenant="second")
    own: set[str] = set()
    for path, operations in DOCUMENT["paths"].items():
        for method in operations:
            for request in asked(theirs, method.upper(), path):
                answer = send(client, other, request)
                said = answer.text + json.dumps(dict(answer.headers))
                given = f"{request.url} {request.content.decode()} {request.headers}"
                leaked = [word for word in theirs.words() if word in said and word not in given]
                assert leaked == [], (method, path, said)
                where = (method, str(request.url), said)
                if "files_of" in request.url.params:
                    assert answer.status_code == 404, where
                elif (method, path) == ("post", "/trace"):
                    assert answer.status_code == 200, where
                    own.add(answer.json()["id"])
                elif path in PUBLIC:
                    assert answer.status_code in (200, 503), where  # whether it is ready is not about tenants
                elif path in FOR_ALL_TENANTS:
                    assert answer.status_code == 200, where
                elif path in ("/trace", "/models"):
                    listed = answer.json()["trace_requests" if path == "/trace" else "models"]
                    assert answer.status_code == 200, where
                    assert {each.get("id") for each in listed} <= own | {None}, where
                    assert {each["name"] for each in listed if "name" in each} <= {"linear"}, where
                elif path == "/metrics" or path.startswith("/tenants"):
                    assert (answer.status_code, answer.json()["code"]) == (403, "scope-missing"), where
                elif path == "/webhooks":
                    made = [answer.json()] if method == "post" else answer.json()["webhooks"]
                    assert {each["url"] for each in made} <= {"https://own.example/"}, where
                elif path == "/quota":
                    assert (answer.status_code, answer.json()["name"]) == (200, "second"), where
                elif path in ("/audit", "/keys", "/keys/{prefix}") and "tenant=first" in str(request.url):
                    assert answer.status_code == 403, where
                elif path == "/keys":
                    keys = [answer.json()] if method == "post" else answer.json()["keys"]
                    assert {each["tenant"] for each in keys} == {"second"}, where
                elif path == "/audit":
                    assert answer.status_code == 200, where
                    assert {each["tenant"] for each in answer.json()["entries"]} <= {"second"}, where
                elif path in ("/v2/repository/index", "/v2/models/stats"):
                    found = answer.json()
                    listed = found["model_stats"] if isinstance(found, dict) else found
                    assert {each["name"] for each in listed} <= {"linear"}, where
                else:
                    assert answer.status_code == 404, where

    assert own
    assert own.isdisjoint(theirs.paths["id"])
    assert state_of(client, theirs) == before
    assert answers(client, theirs) == answered


def test_the_same_content_and_the_same_idempotency_key_are_the_others_business(
    client: TestClient, store: Store, theirs: Things
) -> None:
    source = {"files": {"net.py": f"# {SECRET}\n"}, "entrypoint": "net:Net"}
    headers = {**authorized(store, tenant="third"), "idempotency-key": IDEMPOTENCY_KEY, "prefer": "wait=30"}

    answer = client.post("/trace", json=spec(NAME, source=source), headers=headers)

    assert answer.status_code == 200
    assert answer.json()["id"] not in theirs.paths["id"]
    assert answer.json()["model"] == {"name": NAME, "version": 1}


def test_a_model_of_the_same_name_is_another_model(client: TestClient, store: Store, theirs: Things) -> None:
    answered = answers(client, theirs)  # first: the state says that a process runs for the model
    before = state_of(client, theirs)
    ours = Things(authorized(store, tenant="fourth"), {})
    traced = client.post("/trace", json=spec(NAME, options={"seed": 4}), headers={**ours.headers, "prefer": "wait=30"})
    assert traced.json()["model"] == {"name": NAME, "version": 1}
    shown = client.get(f"/models/{NAME}", headers=ours.headers).json()
    assert [version["links"]["trace_request"] for version in shown["versions"]] == [traced.json()["links"]["self"]]
    assert shown["aliases"] == []
    alias = f"/models/{NAME}/aliases/{ALIAS}"
    assert client.put(alias, json={"version": 1}, headers=ours.headers).status_code == 200

    assert answers(client, ours) != answered
    assert answers(client, ours, f"{NAME}@{ALIAS}") == answers(client, ours)
    assert answers(client, theirs) == answered

    for path in (alias, f"/models/{NAME}/versions/1"):
        assert client.delete(path, headers=ours.headers).status_code == 204
    assert client.post(f"/infer/{NAME}", json=CALL, headers=ours.headers).status_code == 404
    assert state_of(client, theirs) == before
    assert answers(client, theirs) == answered


def test_of_a_trace_that_was_rejected_its_tenant_alone_is_told(
    client: TestClient, store: Store, theirs: Things
) -> None:
    rejected = client.post("/trace", json=spec(REJECTED), headers={**theirs.headers, "prefer": "wait=30"}).json()
    assert rejected["verdict"] == "rejected"
    other = authorized(store, tenant="second")

    told, untold = (client.get(f"/models/{REJECTED}", headers=who) for who in (theirs.headers, other))

    assert (told.status_code, rejected["id"] in told.text) == (404, True)
    assert (untold.status_code, rejected["id"] in untold.text) == (404, False)


def test_a_running_trace_request_is_cancelled_by_its_tenant_alone(
    client: TestClient, store: Store, theirs: Things
) -> None:
    running = client.post("/trace", json=spec("stays", options={"seed": 9}), headers=theirs.headers).json()
    other = authorized(store, tenant="second")

    refused = client.post(running["links"]["cancel"], headers=other)
    state = client.get(running["links"]["self"], headers=theirs.headers).json()["state"]
    cancelled = client.post(running["links"]["cancel"], headers=theirs.headers)

    assert (refused.status_code, state in ("queued", "running")) == (404, True)
    assert cancelled.json()["state"] == "cancelled"


def test_keys_of_one_tenant_see_the_same(client: TestClient, store: Store, theirs: Things) -> None:
    colleague = Things(authorized(store, tenant="first"), theirs.paths, theirs.cursors)

    assert state_of(client, colleague) == state_of(client, theirs)
