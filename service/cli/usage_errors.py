"""A refusal: why a command does not do what it was asked to, in few lines on standard error, and exit status 2."""

from typing import NoReturn

import typer


def refuse(why: str) -> NoReturn:
    typer.echo(why, err=True)
    raise typer.Exit(2)
