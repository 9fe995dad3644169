"""`tracehouse serve`: everything on the embedded default, in one process and its children."""

import fcntl
import ipaddress
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from service import log
from service.cli.environment import settings_of
from service.main import Server, build

logger = logging.getLogger(__name__)


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    state: Annotated[Path | None, typer.Option(help="Directory of the database and the files.")] = None,
) -> None:
    """Serve on the embedded default: SQLite and a directory, tracing workers and runners as child processes."""
    settings = settings_of(state)
    log.configure(settings.log_level)
    if not _is_loopback(host):
        logger.warning(
            "open to the network without keys or isolation: anybody who reaches it runs code", extra={"host": host}
        )
    with _own(settings.state_dir):
        config = uvicorn.Config(
            build(settings),
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
        )
        Announcing(config).run()


class Announcing(Server):
    """Says its address on standard output once it can be reached."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            typer.echo(f"Tracehouse is ready at {address} (API documentation: {address}/docs)")


@contextmanager
def _own(state: Path) -> Iterator[None]:
    """Hold the state directory: a second service would take the first one's running requests for lost."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            typer.echo(f"Another service uses {state.absolute()}; give this one its own with --state", err=True)
            raise typer.Exit(2) from None
        yield


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
