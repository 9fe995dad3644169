"""The OpenAPI document: a change to it is a change of the public API, and is seen in review.

`make openapi` writes the document anew.
"""

import re
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from service.api.problems import PROBLEM_JSON

SNAPSHOT = Path(__file__).with_name("openapi.json")

Operation = tuple[str, str, dict[str, Any]]


@pytest.fixture(scope="module")
def document(steady: TestClient) -> dict[str, Any]:
    described: dict[str, Any] = steady.get("/openapi.json").json()
    return described


def written(document: dict[str, Any]) -> bytes:
    described = {**document, "info": {**document["info"], "version": "as installed"}}
    return orjson.dumps(described, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def operations(document: dict[str, Any]) -> list[Operation]:
    return [(method, path, operation) for path, item in document["paths"].items() for method, operation in item.items()]


def test_the_document_is_the_one_that_was_reviewed(document: dict[str, Any]) -> None:
    assert written(document).decode() == SNAPSHOT.read_text(), "if the change is meant: make openapi"


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for name in set(re.findall(r'"#/components/schemas/([^"]+)"', written(document).decode())):
        assert name in document["components"]["schemas"]


def test_every_route_says_what_it_does_and_what_can_go_wrong(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        assert operation["summary"], path
        assert operation["tags"], path
        assert operation["description"], path
        assert "500" in operation["responses"], path
        if operation.get("parameters"):
            assert {"404", "422"} & operation["responses"].keys(), (method, path)
        for status, response in operation["responses"].items():
            assert response["description"], path
            if status >= "400":
                assert list(response["content"]) == [PROBLEM_JSON], (path, status)


def test_what_a_fresh_start_needs_to_be_tried_out_is_filled_in(document: dict[str, Any]) -> None:
    """An id or a digest comes out of an earlier reply, and its description says of which."""
    for _, path, operation in operations(document):
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path" and parameter["name"] in ("id", "digest"):
                assert "`" in parameter["description"], path
            elif parameter["in"] == "path":
                assert example(parameter) is not None, (path, parameter)
        for kind in operation.get("requestBody", {}).get("content", {}).values():
            assert {"example", "examples"} & kind.keys(), path


def example(parameter: dict[str, Any]) -> Any:
    """What Swagger UI fills in."""
    if "examples" in parameter:
        return next(iter(parameter["examples"].values()))["value"]
    schema = parameter.get("schema", {})
    choices = [*schema.get("examples", []), *schema.get("enum", [])]
    return parameter.get("example", schema.get("default", next(iter(choices), None)))


def test_the_worked_submission_can_be_sent_as_it_is(client: TestClient, document: dict[str, Any]) -> None:
    body = document["paths"]["/trace"]["post"]["requestBody"]["content"]
    sent = body["application/json"]["example"]
    [(name, source)] = sent["source"]["files"].items()
    parts = [
        ("request", (None, orjson.dumps(body["multipart/form-data"]["example"]["request"]))),
        ("files", (name, source)),
    ]

    assert client.post("/trace", json=sent).status_code == 202
    assert client.post("/trace", files=parts).status_code == 202


def test_the_worked_examples_follow_each_other(client: TestClient, document: dict[str, Any]) -> None:
    sent = document["paths"]["/trace"]["post"]["requestBody"]["content"]["application/json"]["example"]
    client.post("/trace", json=sent, headers={"prefer": "wait=30"})
    paths = document["paths"]
    alias = paths["/models/{name}/aliases/{alias}"]

    assert client.get(filled("/models/{name}", paths["/models/{name}"]["get"])).status_code == 200
    path = filled("/models/{name}/aliases/{alias}", alias["put"])
    assert (
        client.put(path, json=alias["put"]["requestBody"]["content"]["application/json"]["example"]).status_code == 200
    )
    assert client.get(path).status_code == 200


def filled(path: str, operation: dict[str, Any]) -> str:
    return path.format(**{each["name"]: example(each) for each in operation["parameters"] if each["in"] == "path"})


@pytest.mark.parametrize("name", ["TraceSpec", "Problem", "Printout", "AliasTarget", "ModelChange", "PromotionTarget"])
def test_bodies_that_routes_read_by_themselves_are_described(document: dict[str, Any], name: str) -> None:
    assert document["components"]["schemas"][name]["properties"]


if __name__ == "__main__":
    from service.api.app import create_app

    # The document is made of the routes alone: there is nothing here for them to ask for.
    sys.exit(0 if SNAPSHOT.write_bytes(written(create_app(None).openapi())) else 1)  # type: ignore[arg-type]
