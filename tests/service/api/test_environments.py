"""Environments over HTTP: what is in them, and requests that name one."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.environments.environments import Environments
from tests.environments import add_environment
from tests.service.api.conftest import assert_problem, spec

WAIT = {"prefer": "wait=30"}


@pytest.fixture
def environments(state_dir: Path) -> Environments:
    return Environments(state_dir / "environments")


def test_environments_are_listed_with_their_packages(client: TestClient, environments: Environments) -> None:
    assert client.get("/environments").json() == {"environments": []}
    vision = add_environment(environments, "vision")

    [listed] = client.get("/environments").json()["environments"]
    assert (listed["name"], listed["digest"], listed["fault"]) == ("vision", vision.digest, None)
    assert (listed["python"], listed["torch"]) == (vision.python, vision.torch)
    assert listed["packages"] == [{"name": "scales-for-tests", "version": "1.0", "modules": ["scales"]}]
    assert client.get("/environments/vision").json() == listed


def test_an_unknown_environment_is_a_problem_that_names_the_list(client: TestClient) -> None:
    document = assert_problem(client.get("/environments/nope"), 404, "environment-not-found")

    assert "GET /environments" in document["remedy"]


def test_a_request_for_an_unknown_environment_is_refused_with_those_there_are(
    client: TestClient, environments: Environments
) -> None:
    add_environment(environments, "vision")

    answer = client.post("/trace", json=spec(environment="visoin"))

    document = assert_problem(answer, 422, "unknown-environment")
    assert [error["pointer"] for error in document["errors"]] == ["/environment"]
    assert document["environments"] == ["vision"]
    assert "tracehouse environments create" in document["remedy"]


def test_a_request_for_an_outdated_environment_is_refused(client: TestClient, environments: Environments) -> None:
    add_environment(environments, "vision", torch="1.0")

    document = assert_problem(client.post("/trace", json=spec(environment="vision")), 422, "environment-unusable")
    assert [error["pointer"] for error in document["errors"]] == ["/environment"]
    assert "torch 1.0" in document["detail"]
    assert client.get("/environments/vision").json()["fault"] in document["detail"]


def test_a_request_keeps_the_environment_as_it_was_when_it_came(client: TestClient, environments: Environments) -> None:
    vision = add_environment(environments, "vision")

    traced = client.post("/trace", json=spec(environment="vision"), headers=WAIT).json()

    assert traced["environment"] == {"name": "vision", "digest": vision.digest}
    assert client.get(traced["links"]["self"]).json()["environment"] == traced["environment"]


def test_the_same_content_in_a_changed_environment_is_traced_again(
    client: TestClient, environments: Environments
) -> None:
    add_environment(environments, "vision", "FACTOR = 2")
    first, again = (client.post("/trace", json=spec(environment="vision"), headers=WAIT).json() for _ in range(2))
    add_environment(environments, "vision", "FACTOR = 3")
    changed = client.post("/trace", json=spec(environment="vision"), headers=WAIT).json()
    without = client.post("/trace", json=spec(), headers=WAIT).json()

    assert again["id"] == first["id"]
    assert len({first["id"], changed["id"], without["id"]}) == 3


def test_an_archive_takes_no_environment(client: TestClient) -> None:
    archive = spec(source={"archive": "net.pt"}, environment="vision")

    document = assert_problem(client.post("/trace", json=archive), 422, "invalid-request")
    assert document["errors"][0]["pointer"] == "/environment"
