"""The port that a command answers HTTP at."""

import socket

from service.cli.usage_errors import refuse


def listen(host: str, port: int) -> socket.socket:
    """Bind before anything is started, so that a port that is taken is reported at once."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except (OSError, UnicodeError) as error:  # UnicodeError: no host can have such a name
        why = error.strerror if isinstance(error, OSError) else error
        refuse(f"Cannot listen on {host}, port {port} ({why}); choose others with --host and --port")
