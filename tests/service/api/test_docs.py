"""The documentation page, its files, and its examples."""

import asyncio
import json
import re
from contextlib import suppress
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from service.api import docs
from service.api.app import create_app
from service.api.context import AppContext
from tests.service.api.conftest import local


def test_the_page_loads_nothing_from_elsewhere(steady: TestClient) -> None:
    page = steady.get("/docs")

    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(addresses) == 3
    for address in addresses:
        assert address.startswith("/docs/assets/")
        assert steady.get(address).status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_the_document_is_made_once_and_beside_the_event_loop(
    context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes half a second, and anybody may ask for it."""
    made_on_the_loop = []
    get_openapi = docs.get_openapi

    def noted(**given: Any) -> dict[str, Any]:
        with suppress(RuntimeError):
            made_on_the_loop.append(asyncio.get_running_loop())
        return get_openapi(**given)

    monkeypatch.setattr(docs, "get_openapi", noted)
    with local(create_app(context)) as client:
        first = client.get("/openapi.json")
        monkeypatch.setattr(orjson, "dumps", None)
        monkeypatch.setattr(json, "dumps", None)
        second = client.get("/openapi.json")

    assert not made_on_the_loop
    assert first.headers["content-type"] == "application/json"
    assert first.content == second.content


def test_the_root_leads_to_the_documentation(steady: TestClient) -> None:
    assert steady.get("/", follow_redirects=False).headers["location"] == "/docs"
