"""Which media type a client gets: what `Accept` wants most of what is offered."""

import pytest

from service.api.accept import accepted

OFFERED = ["application/json", "application/x-npy", "application/octet-stream", "text/plain"]


@pytest.mark.parametrize(
    ("accept", "first"),
    [
        ("", "application/json"),
        (" ", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("text/*", "text/plain"),
        ("application/x-npy", "application/x-npy"),
        ("APPLICATION/X-NPY", "application/x-npy"),
        ("application/x-npy;version=1", "application/x-npy"),
        ("application/json;charset=utf-8", "application/json"),
        ("application/x-npy, */*", "application/x-npy"),
        ("*/*, application/x-npy", "application/x-npy"),
        ("application/x-npy, application/json", "application/x-npy"),
        ("application/json, application/x-npy", "application/json"),
        ("application/x-npy;q=0.5, application/json;q=0.6", "application/json"),
        ("application/x-npy;q=0.6, application/json;q=0.5", "application/x-npy"),
        ("application/x-npy ; q=1 , application/json;q=0.999", "application/x-npy"),
        ("application/json;q=0, */*", "application/x-npy"),
        ("application/*;q=0.1, text/plain;q=0.2", "text/plain"),
        ("*/*;q=1, application/json;q=0.1", "application/x-npy"),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "application/json"),
        ("text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", "application/json"),
        ("nonsense nonsense, application/x-npy", "application/x-npy"),
        ("application/json;q=nonsense, application/x-npy;q=0.1", "application/json"),
        ("application/json;q=., application/x-npy;q=0.1", "application/x-npy"),
        ("application/x-npy;q=7, application/json", "application/x-npy"),
    ],
)
def test_the_best_is_first(accept: str, first: str) -> None:
    assert accepted(accept, OFFERED)[0] == first


@pytest.mark.parametrize("accept", ["text/html", "*/*;q=0", "image/*, application/pdf", ";;;", "application/json;q=0"])
def test_what_a_client_does_not_take_it_does_not_get(accept: str) -> None:
    assert accepted(accept, OFFERED) == []


def test_the_rest_follows_in_the_order_of_wanting() -> None:
    assert accepted("text/plain;q=0.3, application/*;q=0.7, application/json;q=0.5", OFFERED) == [
        "application/x-npy", "application/octet-stream", "application/json", "text/plain",
    ]  # fmt: skip


def test_a_header_of_any_length_is_read_in_no_time() -> None:
    assert accepted("a/b;" + "q" * 60_000 + ";q=" * 1000, OFFERED) == []
    assert accepted(",".join(["text/plain;q=0.1"] * 20_000), OFFERED) == ["text/plain"]
