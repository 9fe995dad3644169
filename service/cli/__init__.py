"""The `tracehouse` command."""

import typer

from service.cli.doctor import doctor
from service.cli.infer import infer
from service.cli.serve import serve
from service.cli.trace import trace

app = typer.Typer(
    help="Trace PyTorch models, check the traces, keep and serve the artifacts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
for command in (serve, doctor, trace, infer):
    app.command()(command)


def main() -> None:
    app()
