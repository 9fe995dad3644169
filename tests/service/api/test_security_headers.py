"""Security headers: on every reply, whoever made it, and no shared cache keeps what is a tenant's."""

import re
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from service.storage.database import Store
from tests.conftest import PATIENCE_S
from tests.service.api.conftest import authorized, protocol, serving, spec

EXPECTED = {
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
STRICT = "default-src 'none'; frame-ancestors 'none'"


def said(answer: httpx.Response) -> dict[str, str]:
    return {name: answer.headers.get(name, "nothing") for name in EXPECTED}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/livez"),
        ("HEAD", "/livez"),
        ("GET", "/trace"),
        ("GET", "/nope"),
        ("GET", "/"),
        ("GET", "/openapi.json"),
        ("GET", "/docs/assets/swagger-ui-bundle.js"),
        ("GET", "/docs/assets/nope"),
        ("DELETE", "/trace"),
        ("POST", "/trace"),
        ("GET", "/trace/nonsense"),
        ("GET", "/models?limit=lots"),
    ],
)
def test_every_reply_has_them(steady: TestClient, method: str, path: str) -> None:
    answer = steady.request(method, path, follow_redirects=False)

    assert said(answer) == EXPECTED
    assert answer.headers["content-security-policy"] == STRICT


def test_a_refusal_before_any_route_has_the_security_headers(steady: TestClient) -> None:
    answer = steady.get("/trace", headers={"host": "evil.example"})

    assert (answer.status_code, said(answer)) == (403, EXPECTED)


def test_an_internal_error_has_the_security_headers(app: FastAPI, client: TestClient) -> None:
    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError

    answer = client.get("/broken")

    assert (answer.status_code, said(answer)) == (500, EXPECTED)


def test_a_stream_has_them(client: TestClient) -> None:
    request = client.post("/trace", json=spec(), headers={"prefer": "wait=30"}).json()
    answer = client.get(request["links"]["events"])

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert said(answer) == EXPECTED


def test_what_is_refused_before_it_is_a_request_has_them(app: FastAPI) -> None:
    with serving(app, http=protocol()) as (host, port):
        answer = httpx.get(f"http://{host}:{port}/livez", headers={"x": "a" * 100_000}, timeout=PATIENCE_S)

    assert (answer.status_code, said(answer)) == (431, EXPECTED)


def test_the_documentation_runs_its_own_script_and_no_other(steady: TestClient) -> None:
    pages = [steady.get("/docs") for _ in range(2)]
    policies = [page.headers["content-security-policy"] for page in pages]
    nonces = [re.findall("script-src 'self' 'nonce-([^']+)'", policy)[0] for policy in policies]

    for page, policy, nonce in zip(pages, policies, nonces, strict=True):
        assert f'<script nonce="{nonce}">' in page.text
        assert policy.startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in policy
        assert said(page) == EXPECTED
    assert nonces[0] != nonces[1]


def test_a_picture_runs_nothing(steady: TestClient, digest: str) -> None:
    policy = steady.get(f"/artifacts/{digest}/graph.svg").headers["content-security-policy"]

    assert {"default-src 'none'", "sandbox", "frame-ancestors 'none'"} <= set(policy.split("; "))


@pytest.mark.parametrize("part", ["/archive", "/printouts", "/printouts/code", "/graph.svg"])
def test_what_never_changes_is_kept_by_whoever_asked_alone(steady: TestClient, digest: str, part: str) -> None:
    headers = steady.get(f"/artifacts/{digest}{part}").headers

    assert headers["cache-control"] == "private, max-age=31536000, immutable"
    assert "Authorization" in headers["vary"]


def test_a_manifest_is_asked_for_again_because_later_checks_are_told_beside_it(steady: TestClient, digest: str) -> None:
    headers = steady.get(f"/artifacts/{digest}").headers

    assert headers["cache-control"] == "private, no-cache"
    assert "Authorization" in headers["vary"]


@pytest.mark.parametrize("path", ["/trace", "/models", "/models/nope", f"/trace/{'0' * 32}/log"])
def test_what_may_change_is_kept_by_nobody(steady: TestClient, path: str) -> None:
    assert steady.get(path).headers["cache-control"] == "no-store"


def test_no_cache_is_told_to_show_it_to_anybody(context: AppContext, store: Store) -> None:
    headers = authorized(store)
    with TestClient(create_app(replace(context, keys_required=True))) as client:
        traced = client.post("/trace", json=spec(), headers={"prefer": "wait=30", **headers}).json()
        for path in traced["links"].values():
            if path is not None and "/infer" not in path:
                kept = client.get(path, headers=headers).headers["cache-control"]
                assert "private" in kept or "no-store" in kept, path
        assert client.get("/trace").headers["cache-control"] == "no-store"
