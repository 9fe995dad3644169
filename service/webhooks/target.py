"""A target: where a webhook's messages go. A tenant must reach nothing through the service that it cannot reach itself.

So a name is resolved once, each of its addresses must be a public one, and the connection is made to the address that
was looked at: a name server that gives another answer the second time gains nothing.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Self
from urllib.parse import urlsplit

from service.domain.errors import WebhookUrlRefused

URL_MAX = 2000
Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

# The only addresses of IPv6 that the internet has. Python takes others for public, such as site-local ones.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# 6to4, which leads to an IPv4 address that it contains; documentation, of which Python 3.11 does not know.
_NOT_PUBLIC: list[Network] = [IPv6Network("2002::/16"), IPv6Network("3fff::/20"), IPv4Network("192.88.99.0/24")]


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL that a request needs."""

    is_tls: bool
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises WebhookUrlRefused if it is no plain URL of http or https."""
        if len(url) > URL_MAX or not url.isascii() or not url.isprintable() or " " in url:
            raise WebhookUrlRefused(f"a URL is at most {URL_MAX} printable characters of ASCII, without spaces")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise WebhookUrlRefused("this is no URL") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise WebhookUrlRefused("a webhook's URL begins with https:// and a host")
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise WebhookUrlRefused("a webhook's URL has no user, no password and no fragment")
        is_tls = parts.scheme == "https"
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        return cls(is_tls, parts.hostname, port or (443 if is_tls else 80), path)

    def check_literal(self, networks: Sequence[Network]) -> None:
        """Raise WebhookUrlRefused if the host is an address that is refused. A name is looked up later."""
        try:
            address = ip_address(self.host)
        except ValueError:
            if not self.is_tls and not networks:
                raise WebhookUrlRefused("a webhook's URL begins with https://") from None
        else:
            self._check(address, networks)

    def resolve(self, networks: Sequence[Network]) -> Address:
        """Return an address to connect to. Raises OSError, and WebhookUrlRefused if any of its addresses is refused."""
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        addresses = [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
        for address in addresses:
            self._check(address, networks)
        return addresses[0]

    def _check(self, address: Address, networks: Sequence[Network]) -> None:
        plain = _unmapped(address)
        if any(plain.version == network.version and plain in network for network in networks):
            return
        if not _is_public(plain):
            raise WebhookUrlRefused("the address is not on the public internet")
        if not self.is_tls:
            raise WebhookUrlRefused("the address is on the public internet, and the URL does not begin with https://")


def _unmapped(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    if any(address.version == network.version and address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved
