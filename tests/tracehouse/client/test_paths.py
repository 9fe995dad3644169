"""The paths of what a service has: no name that a program gives leads to another path."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tracehouse import Client
from tracehouse.client import errors

REVOKES = "../keys/th_ab12cd34"


def refusing_all(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"{request.method} {request.url} was sent")


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.models.delete(REVOKES),
        lambda client: client.models.delete("net/versions/1"),
        lambda client: client.models.delete(""),
        lambda client: client.models.delete_version("net", "../aliases/prod"),
        lambda client: client.models.get("net?limit=1"),
        lambda client: client.models.promote("net/../other", 1),
        lambda client: client.models.set_bitwise("net#", True),
        lambda client: client.models.set_serving("net#", idle_s=1.0),
        lambda client: client.models.set_alias("net", "../../other", 1),
        lambda client: client.models.delete_alias("net", "a/b"),
        lambda client: client.infer("../keys", [1.0]),
        lambda client: client.infer("net@../other", [1.0]),
        lambda client: client.infer("net:1/../../x", [1.0]),
        lambda client: client.get_trace("../keys"),
    ],
)
def test_a_name_that_nothing_has_is_not_sent(ask: Callable[[Client], Any]) -> None:
    client = Client("http://service", transport=httpx.MockTransport(refusing_all))

    with pytest.raises(errors.NotSendable, match=r"is not the (name|number|id) of"):
        ask(client)
