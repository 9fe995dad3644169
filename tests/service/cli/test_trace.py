"""The exit codes of `tracehouse trace`: a script goes on only with a model that is right for all that it asked for."""

import pytest

from service.cli.trace import exit_code_of


@pytest.mark.parametrize(
    ("verdict", "version", "outputs", "code"),
    [
        ("verified", 1, None, 0),
        ("self-consistent", 1, None, 0),
        ("restricted", 1, None, 4),
        ("rejected", None, None, 3),
        ("rejected", 1, None, 0),
        (None, None, "/trace/1/outputs", 0),
    ],
    ids=["verified", "self-consistent", "restricted", "rejected", "accepted as it is", "eager"],
)
def test_each_end_has_its_exit_code(verdict: str | None, version: int | None, outputs: str | None, code: int) -> None:
    ended = {"verdict": verdict, "model": version and {"version": version}, "links": {"outputs": outputs}}

    assert exit_code_of(ended) == code
