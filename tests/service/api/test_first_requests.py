"""The first request of a route: nothing is left to be made for it, for meanwhile no other request is answered."""

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import TypeAdapter

from service.api.app import prepare_routes


def test_the_first_request_of_a_route_finds_its_models_made(
    app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_routes(app)
    made = []

    class Counted(TypeAdapter[Any]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(args)
            super().__init__(*args, **kwargs)

    for place in ("fastapi._compat.v2.TypeAdapter", "pydantic.TypeAdapter"):
        monkeypatch.setattr(place, Counted)
    answers = [client.get(path).status_code for path in ("/trace", "/models", "/audit", "/webhooks", "/findings")]

    assert answers == [200] * 5
    assert made == []
