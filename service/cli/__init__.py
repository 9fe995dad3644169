"""The `tracehouse` command."""

from importlib import metadata
from typing import Annotated

from service.cli.quick_imports import import_quickly

with import_quickly():
    import typer

    from service.cli.alias import alias
    from service.cli.check import check
    from service.cli.delete import delete
    from service.cli.diff import diff
    from service.cli.doctor import doctor
    from service.cli.download import download
    from service.cli.environments import environments
    from service.cli.gc import gc
    from service.cli.graph import graph
    from service.cli.infer import infer
    from service.cli.keys import keys
    from service.cli.logs import logs
    from service.cli.migrate import migrate
    from service.cli.migrate_state import migrate_state
    from service.cli.models import models
    from service.cli.promote import promote
    from service.cli.report import report
    from service.cli.serve import serve
    from service.cli.signing_keys import signing_keys
    from service.cli.trace import trace
    from service.cli.traces import traces
    from service.cli.verify import verify
    from service.cli.worker import worker

app = typer.Typer(
    help="Trace PyTorch models, check the traces, keep and serve the artifacts.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain text, one line a message, for those who read it with grep
    pretty_exceptions_enable=False,
)
for command in (
    serve, worker, migrate, migrate_state, doctor, check, trace, traces, logs, report, graph, infer, models, promote,
    alias, diff, download, delete, verify, gc,
):  # fmt: skip
    app.command()(command)
app.add_typer(keys, name="keys")
app.add_typer(signing_keys, name="signing-keys")
app.add_typer(environments, name="environments")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(metadata.version("tracehouse"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and no more.", is_eager=True, callback=_print_version)
    ] = False,
) -> None: ...


def main() -> None:
    app()
