"""Usage errors: why a command cannot do what it was asked for, on standard error, and exit status 2."""

from typing import NoReturn

import typer


def refuse(why: str) -> NoReturn:
    """Print the reason and exit with 2."""
    typer.echo(why, err=True)
    raise typer.Exit(2)
