"""The catalogue of findings over HTTP: the list, one entry, and an unknown kind."""

from fastapi.testclient import TestClient

from tests.service.api.conftest import assert_problem
from tracehouse.findings.kinds import CATALOGUE


def test_every_kind_is_listed_with_a_link_to_its_entry(steady: TestClient) -> None:
    listed = steady.get("/findings").json()["findings"]

    assert [each["kind"] for each in listed] == sorted(CATALOGUE)
    for each in listed:
        entry = steady.get(each["link"]).json()
        assert (entry["kind"], entry["title"], entry["weight"]) == (each["kind"], each["title"], each["weight"])


def test_an_entry_says_what_to_write_instead(steady: TestClient) -> None:
    entry = steady.get("/findings/baked-value").json()

    assert entry["weight"] == "rejects"
    assert "torch.where" in entry["remedy"]
    assert "if " in entry["example"]["before"]
    assert "torch.where" in entry["example"]["after"]


def test_an_unknown_kind_is_a_problem_that_names_the_list(steady: TestClient) -> None:
    document = assert_problem(steady.get("/findings/nope"), 404, "finding-kind-not-found")

    assert document["kind"] == "nope"
    assert "GET /findings" in document["remedy"]
