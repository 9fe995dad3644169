"""`tracehouse serve`: the whole service in one process and its children."""

import ipaddress
import logging
import os
import shlex
import socket
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer

from service import log
from service.cli.confinement import choose_tier
from service.cli.environment import settings_of
from service.cli.listening import listen
from service.cli.quick_imports import import_quickly
from service.cli.shared_storage import require_shared_storage
from service.cli.start_refusals import tell_what_hinders_a_start
from service.cli.state_lock import lock_state
from service.cli.usage_errors import refuse
from service.domain.first_key import FirstKey

logger = logging.getLogger(__name__)


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    state: Annotated[Path | None, typer.Option(help="Directory of the database and the files.")] = None,
    grpc_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port for gRPC, also GRPC_PORT; 0 takes a free one. Default: no gRPC."),
    ] = None,
    role: Annotated[
        Literal["all", "api", "infer"],
        typer.Option(
            help="api: answer requests, and leave traces to `tracehouse worker`. all: trace, too. "
            "infer: answer inference, health and metrics, and nothing else."
        ),
    ] = "all",
) -> None:
    """Serve from this machine: rows in SQLite, files in a directory, tracing workers and runners as child processes."""
    # This imports FastAPI and SQLAlchemy: no other command waits for it.
    with import_quickly():
        from service.main import FirstKeyUnusable, GrpcMissing, NoUsableKey, run

    settings = settings_of(state)
    if grpc_port is not None:
        settings = settings.model_copy(update={"grpc_port": grpc_port})
    if role != "all":
        require_shared_storage(settings)
    log.configure(settings.log_level)
    os.umask(0o077)  # source and weights belong to the tenants: no other user of this machine may read them
    state_dir = settings.state_dir.absolute()
    with _lock_state(state_dir), listen(host, port) as listening, tell_what_hinders_a_start():
        if settings.grpc_port is not None:
            _check_grpc_port(listening, settings.grpc_port)
        tier = choose_tier(settings.sandbox)
        keys_required = settings.api_keys == "required" or not _is_loopback(listening)
        _log_keys(keys_required, only_inference=role == "infer")
        try:
            run(
                settings,
                listening,
                keys_required=keys_required,
                tier=tier,
                role=role,
                on_first_key=_show_first_key,
                on_ready=lambda address, grpc: typer.echo(
                    f"Tracehouse is ready at {address} ("
                    f"{'inference alone' if role == 'infer' else f'API documentation: {address}/docs'}; "
                    f"{'' if grpc is None else f'gRPC: {grpc}; '}state: {state_dir})"
                ),
            )
        except FirstKeyUnusable as error:
            refuse(f"FIRST_KEY_FILE: {error}.")
        except GrpcMissing as error:
            refuse(f"gRPC needs packages that are not installed ({error}): pip install 'tracehouse-service[grpc]'")
        except NoUsableKey:
            refuse(
                f"On {host} every caller needs an API key, and all that there are have expired or were revoked: "
                f"make one with {_key_command(state)}"
            )


def _check_grpc_port(listening: socket.socket, port: int) -> None:
    """Find out whether the port for gRPC is free, which gRPC itself says only when all else has started."""
    try:
        socket.create_server((listening.getsockname()[0], port), family=listening.family).close()
    except OSError as error:
        refuse(f"Cannot listen on port {port} for gRPC ({error.strerror}); choose another with --grpc-port")


def _lock_state(state: Path) -> AbstractContextManager[object]:
    """Lock the state directory: a second service would take the first one's running requests for lost."""
    locked = ExitStack()
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        locked.enter_context(lock_state(state))
    except BlockingIOError:
        refuse(f"Another service uses {state}; give this one its own with --state")
    except OSError as error:
        refuse(f"Cannot use {state} as the state directory ({error.strerror}); choose another with --state")
    return locked


def _is_loopback(listening: socket.socket) -> bool:
    """Whether the address that it is bound to is a loopback address. The host's name would not tell."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def _log_keys(required: bool, *, only_inference: bool) -> None:
    if not required:
        logger.info("API keys are off: only requests from this machine are answered, and they may do everything")
        return
    public = "/livez, /readyz (which names the sandbox's tier), /v2, /v2/health, /problems"
    logger.info(
        "API keys are on: every request needs a key and sees only what its tenant has; public are %s",
        public if only_inference else f"{public}, /findings, /signing-keys, /docs and /openapi.json",
    )


def _show_first_key(first: FirstKey) -> None:
    """Show the key and say how to go on. Plain lines, because somebody reads them among those of the log."""
    scopes = " and ".join(sorted(first.key.scopes))
    lines = [f"There was no API key: this first start made {first.key.prefix}, {scopes} of tenant {first.key.tenant}."]
    if first.text is None:
        lines += ["It is the one in FIRST_KEY_FILE."]
    else:
        lines += ["This is the only time that it is shown:", "", f"    {first.text}", ""]
    lines += [
        "Send it as Authorization: Bearer KEY, or give it to the tracehouse command as TRACEHOUSE_KEY.",
        "Make other keys with `tracehouse keys create NAME`, in a container with `docker-compose exec api` before it,",
        "or `docker-compose exec embedded` where that is the container's name.",
    ]
    if first.text is not None:
        lines += [f"Who reads this log has this key: then revoke it with `tracehouse keys revoke {first.key.prefix}`."]
    for line in lines:
        typer.echo(line, err=True)


def _key_command(state: Path | None) -> str:
    """Return the command that makes a key for this service's state directory."""
    return f"tracehouse keys create NAME{'' if state is None else f' --state {shlex.quote(str(state))}'}"
