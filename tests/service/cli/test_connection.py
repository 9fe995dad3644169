"""A problem document, as the command tells it."""

from typing import Any

import pytest

from service.cli.connection import ServiceRefused

PROBLEM = {"title": "It is refused", "code": "refused", "status": 422, "detail": "no"}


def said(**members: Any) -> list[str]:
    return [*ServiceRefused(PROBLEM | members).lines()][1:]


def test_an_error_says_where_it_is() -> None:
    errors = [
        {"pointer": "/model", "detail": "too long"},
        {"parameter": "limit", "detail": "too many"},
        {"pointer": "", "detail": "there is no member 'arg'"},
    ]

    assert said(errors=errors) == [
        "  /model: too long",
        "  limit: too many",
        "  the body: there is no member 'arg'",
    ]


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ({"file": "net.py", "line": 10, "source": "return x"}, "net.py:10: return x"),
        ({"file": "net.py", "line": 10, "source": None}, "net.py:10"),
        ({"file": "evil.pt", "line": None}, "evil.pt"),
        ({"file": "evil.pt"}, "evil.pt"),
    ],
)
def test_a_place_is_told_as_far_as_it_is_known(place: dict[str, Any], shown: str) -> None:
    assert said(**place) == ["  no", f"  {shown}"]


def test_numbers_among_the_facts_are_printed() -> None:
    assert said(limit=600, retry_after_s=1.5, held_back=True) == ["  no", "  limit: 600", "  retry_after_s: 1.5"]


def test_the_remedy_comes_last() -> None:
    assert said(remedy="send less", limit=7, scopes=["read", "infer"]) == [
        "  no",
        "  limit: 7",
        "  scopes: read, infer",
        "  remedy: send less",
    ]


def test_what_a_problem_lacks_is_not_printed() -> None:
    """A request that was cancelled has no problem of its own, and other services have other documents."""
    assert [*ServiceRefused({"title": "It was cancelled", "code": "cancelled"}).lines()] == [
        "It was cancelled (cancelled)"
    ]
    assert [*ServiceRefused({"title": "Not Found", "status": 404}).lines()] == ["Not Found"]
