"""Every kind of socket: to somebody on this machine, to the kernel, and to listen on."""

import encodings.idna  # noqa: F401 - which the first name that is looked up would look for
import http.client
import socket
import struct
from typing import Any

from attacks import calls, machine
from attacks.attack import attack
from attacks.judges import claimed, connected
from attacks.world import has_ipv6

AF_KEY, AF_ALG, AF_VSOCK, AF_NETLINK, AF_PACKET, AF_BLUETOOTH = 15, 38, 40, 16, 17, 31
LOOPBACK = "127.0.0.1"


def with_ipv6() -> str:
    return "" if has_ipv6() else "there is no IPv6 here"


@attack(connected)
def connects_to_a_TCP_socket(world: Any) -> Any:
    socket.create_connection((LOOPBACK, world.tcp), 5).sendall(b"hello")


@attack(connected, impossible_here=with_ipv6)
def connects_to_a_TCP_socket_by_IPv6(world: Any) -> Any:
    socket.create_connection(("::1", world.tcp6), 5).sendall(b"hello")


@attack(connected)
def connects_to_a_TCP_socket_while_sending(world: Any) -> Any:
    """TCP fast open: no connect() that a filter could look at."""
    socket.socket(socket.AF_INET, socket.SOCK_STREAM).sendto(b"hello", 0x20000000, (LOOPBACK, world.tcp))


@attack(connected)
def connects_to_a_TCP_socket_by_multipath(world: Any) -> Any:
    try:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    except OSError:  # a kernel without MPTCP
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.connect((LOOPBACK, world.tcp))


@attack(connected)
def resolves_a_name_and_connects(world: Any) -> Any:
    family, kind, protocol, _, address = socket.getaddrinfo("localhost", world.tcp, socket.AF_INET)[0]
    socket.socket(family, kind, protocol).connect(address)


@attack(connected)
def fetches_by_HTTP(world: Any) -> Any:
    http.client.HTTPConnection(LOOPBACK, world.tcp, timeout=0.1).request("GET", "/")


@attack(connected)
def sends_a_UDP_datagram(world: Any) -> Any:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hello", (LOOPBACK, world.udp))


@attack(connected, impossible_here=with_ipv6)
def sends_a_UDP_datagram_by_IPv6(world: Any) -> Any:
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"hello", ("::1", world.udp6))


@attack(connected)
def connects_to_a_unix_socket(world: Any) -> Any:
    socket.socket(socket.AF_UNIX).connect(world.unix)


@attack(connected)
def connects_to_a_unix_socket_of_packets(world: Any) -> Any:
    socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(world.seqpacket)


@attack(connected)
def sends_a_unix_datagram(world: Any) -> Any:
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"hello", world.datagram)


@attack(connected)
def connects_to_an_abstract_unix_socket(world: Any) -> Any:
    socket.socket(socket.AF_UNIX).connect("\0" + world.abstract)


@attack(connected)
def connects_a_datagram_socket_of_a_pair_elsewhere(world: Any) -> Any:
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.connect(world.datagram)
    ours.send(b"hello")


@attack(claimed)
def makes_a_pair_of_sockets(world: Any) -> Any:
    ours, theirs = socket.socketpair()
    ours.send(b"hello")
    return theirs.recv(10) == b"hello"


@attack(claimed)
def listens_on_a_TCP_port(world: Any) -> Any:
    with socket.create_server((LOOPBACK, 0)) as server:
        return server.getsockname()[1] > 0


@attack(claimed)
def listens_on_an_abstract_unix_socket(world: Any) -> Any:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"\0{world.word}")
    sock.listen()
    return True


@attack(claimed)
def listens_on_a_unix_socket(world: Any) -> Any:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"{world.directory}/listening")
    sock.listen()
    return True


@attack(claimed, impossible_here=machine.capability("NET_RAW"))
def sends_raw_packets(world: Any) -> Any:
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    return raw.sendto(b"\x08\x00\xf7\xff" + bytes(4), (LOOPBACK, 0)) > 0


@attack(
    claimed, impossible_here=machine.needs(machine.capability("NET_RAW"), machine.socket_family(AF_PACKET, 3, 0x300))
)
def listens_to_all_traffic(world: Any) -> Any:
    return socket.socket(AF_PACKET, socket.SOCK_RAW, socket.htons(3)).fileno() > 2


@attack(claimed, impossible_here=machine.socket_family(AF_NETLINK, 3, 0))
def asks_the_kernel_for_network_interfaces(world: Any) -> Any:
    link = socket.socket(AF_NETLINK, socket.SOCK_RAW, 0)
    link.bind((0, 0))
    link.send(struct.pack("=IHHIIB3x", 20, 18, 0x301, 1, 0, 0))
    return len(link.recv(65536)) > 20


@attack(claimed, impossible_here=machine.socket_family(AF_ALG, 5))
def uses_the_kernel_s_ciphers(world: Any) -> Any:
    sock = socket.socket(AF_ALG, socket.SOCK_SEQPACKET)
    sock.bind(("hash", "sha256"))
    return True


@attack(claimed, impossible_here=machine.socket_family(AF_VSOCK, 1))
def makes_a_socket_to_the_hypervisor(world: Any) -> Any:
    return socket.socket(AF_VSOCK, socket.SOCK_STREAM).fileno() > 2


@attack(claimed, impossible_here=machine.socket_family(AF_KEY, 3, 2))
def makes_a_socket_for_IPsec_keys(world: Any) -> Any:
    return calls.libc("socket", AF_KEY, 3, 2) > 2


@attack(claimed, impossible_here=machine.socket_family(AF_BLUETOOTH, 5, 0))
def makes_a_bluetooth_socket(world: Any) -> Any:
    return calls.libc("socket", AF_BLUETOOTH, 5, 0) > 2


@attack(claimed)
def sends_a_descriptor_to_its_parent(world: Any) -> Any:
    channel = socket.socket(fileno=world.channel_descriptor)
    return socket.send_fds(channel, [b""], [channel.fileno()]) >= 0 and channel.detach() > 0


@attack(claimed)
def sets_options_of_its_channel(world: Any) -> Any:
    channel = socket.socket(fileno=world.channel_descriptor)
    before = channel.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * before)
    return channel.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > before and channel.detach() > 0
