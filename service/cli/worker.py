"""`tracehouse worker`: runs trace requests that other processes take."""

import os
import signal
import threading
from contextlib import nullcontext
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
from service.cli.usage_errors import refuse


def worker(
    pool: Annotated[Literal["cpu", "gpu"], typer.Option(help="Whose trace requests: gpu has those for cuda.")] = "cpu",
    slots: Annotated[int, typer.Option(min=1, max=256, help="Trace requests that run at the same time.")] = 1,
    state: Annotated[Path | None, typer.Option(help="Directory of what this process keeps on its own host.")] = None,
    host: Annotated[str, typer.Option(help="Address to answer health and metrics on, without keys.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port for them; 0 takes a free one. Default: none.")
    ] = None,
) -> None:
    """Run trace requests of a PostgreSQL that `tracehouse serve` uses too, on any host that reaches it and the files.

    Any number of workers may run. What a worker runs is queued again when it stops, and after some 15 seconds when it
    is killed or its host is lost.
    """
    with import_quickly():  # of FastAPI and SQLAlchemy, for which no other command waits
        from service.worker_process import run_worker

    settings = settings_of(state)
    require_shared_storage(settings)
    log.configure(settings.log_level)
    os.umask(0o077)  # as in `tracehouse serve`
    try:
        settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        refuse(
            f"Cannot use {settings.state_dir} as the state directory ({error.strerror}); choose another with --state"
        )
    stop = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: stop.set())
    with nullcontext() if port is None else listen(host, port) as listening, tell_what_hinders_a_start():
        run_worker(
            settings,
            pool=pool,
            slots=slots,
            tier=choose_tier(settings.sandbox),
            on_ready=lambda address: typer.echo(
                f"Tracehouse worker is ready: {slots} at a time of pool {pool}"
                f"{'' if address is None else f'; health and metrics at {address}'}"
            ),
            stop=stop,
            listening=listening,
        )
