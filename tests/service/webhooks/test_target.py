"""Where webhooks may go."""

import socket
from ipaddress import ip_network

import pytest

from service.domain.errors import WebhookUrlRefused
from service.webhooks.target import Target

NOT_PUBLIC = [
    "127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.2.1",
    "224.0.0.1", "255.255.255.255", "240.0.0.1",
    "[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[ff02::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]",
    "[2002:7f00:1::]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]",
    "[fec0::2]", "[feff::1]", "[3fff::1]", "[5f00::1]", "192.88.99.1",
]  # fmt: skip


@pytest.mark.parametrize("host", NOT_PUBLIC)
def test_an_address_that_is_not_on_the_public_internet_is_refused(host: str) -> None:
    target = Target.parse(f"https://{host}/")

    with pytest.raises(WebhookUrlRefused):
        target.check_literal([])
    with pytest.raises(WebhookUrlRefused):
        target.resolve([])


@pytest.mark.parametrize("written", ["2130706433", "0x7f.1", "127.1", "017700000001", "localhost"])
def test_no_way_to_write_an_address_of_this_machine_gets_there(written: str) -> None:
    with pytest.raises((WebhookUrlRefused, OSError)):
        Target.parse(f"https://{written}/").resolve([])


def test_a_public_address_is_reached_with_tls_alone() -> None:
    assert str(Target.parse("https://1.1.1.1/").resolve([])) == "1.1.1.1"
    assert str(Target.parse("https://[2606:4700::1]/").resolve([])) == "2606:4700::1"
    with pytest.raises(WebhookUrlRefused):
        Target.parse("http://1.1.1.1/").resolve([])


def test_a_network_that_the_operator_names_is_reached_and_no_other() -> None:
    networks = [ip_network("10.0.0.0/8")]

    assert str(Target.parse("http://10.1.2.3:8080/").resolve(networks)) == "10.1.2.3"
    with pytest.raises(WebhookUrlRefused):
        Target.parse("http://192.168.1.1/").resolve(networks)


def test_a_name_of_which_one_address_is_private_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in ("1.1.1.1", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    with pytest.raises(WebhookUrlRefused):
        Target.parse("https://both.example/").resolve([])


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/", "https://", "example.com", "https://user:word@example.com/", "https://example.com/#part",
        "https://example.com:0/", "https://example.com:99999/", "https://exämple.com/", "https://example.com/ x",
        "https://example.com/\r\nx: y", "https://[::1", "file:///etc/passwd", f"https://example.com/{'x' * 2000}",
    ],
)  # fmt: skip
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(WebhookUrlRefused):
        Target.parse(url)
