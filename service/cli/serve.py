"""`tracehouse serve`: everything on the embedded default, in one process and its children."""

import fcntl
import ipaddress
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from service import log
from service.cli.environment import settings_of

logger = logging.getLogger(__name__)


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    state: Annotated[Path | None, typer.Option(help="Directory of the database and the files.")] = None,
) -> None:
    """Serve on the embedded default: SQLite and a directory, tracing workers and runners as child processes."""
    from service.main import run  # FastAPI and SQLAlchemy: no other command is to wait for them

    settings = settings_of(state)
    log.configure(settings.log_level)
    if not _is_loopback(host):
        logger.warning(
            "open to the network without keys or isolation: anybody who reaches it runs code", extra={"host": host}
        )
    state_dir = settings.state_dir.absolute()
    with _own(state_dir), _listening(host, port) as listening:
        run(
            settings,
            listening,
            on_ready=lambda address: typer.echo(
                f"Tracehouse is ready at {address} (API documentation: {address}/docs; state: {state_dir})"
            ),
        )


def _listening(host: str, port: int) -> socket.socket:
    """Bound before anything is started, so that a port that is taken is told at once."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        _refuse(f"Cannot listen on {host}, port {port} ({error.strerror}); choose others with --host and --port")


@contextmanager
def _own(state: Path) -> Iterator[None]:
    """Hold the state directory: a second service would take the first one's running requests for lost."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        lock = (state / "lock").open("w")
    except OSError as error:
        _refuse(f"Cannot use {state} as the state directory ({error.strerror}); choose another with --state")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _refuse(f"Another service uses {state}; give this one its own with --state")
        yield


def _refuse(why: str) -> NoReturn:
    typer.echo(why, err=True)
    raise typer.Exit(2)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
