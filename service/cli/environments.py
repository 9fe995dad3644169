"""`tracehouse environments`: packages that submitted code may import. The commands work beside a running service."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.environment import settings_of
from service.cli.json_output import Json, print_json
from service.cli.usage_errors import refuse
from service.cli.versions import parse_name
from service.domain.environment import Environment
from service.domain.errors import EnvironmentNotFound

if TYPE_CHECKING:
    from service.environments.environments import Environments

environments = typer.Typer(
    help="Install, list and delete the environments that trace requests may name.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="The environment's name.", callback=parse_name)]
State = Annotated[Path | None, typer.Option("--state", help="Directory of the service's database.")]


@environments.command()
def create(
    name: Name,
    requirements: Annotated[
        Path,
        typer.Option("--requirements", "-r", exists=True, dir_okay=False, help="What to install, as pip reads it."),
    ],
    as_json: Json = False,
    state: State = None,
) -> None:
    """Install requirements under a name. If the name exists, what it stands for is replaced."""
    from service.environments.installer import install
    from service.environments.pip import InstallationFailed

    with _environments(state) as installed:
        os.umask(0o022)  # jailed code may run as another user, and reads the packages
        try:
            environment = install(installed, name, requirements, lambda line: typer.echo(line, err=True))
        except InstallationFailed as error:
            refuse(str(error))
    if as_json:
        print_json(environment.model_dump(mode="json"))
    else:
        typer.echo(f"Environment {name} has {_describe_packages(environment)}.")


@environments.command("list")
def list_all(as_json: Json = False, state: State = None) -> None:
    """List the environments with their packages."""
    with _environments(state) as installed:
        listed = installed.list()
    if as_json:
        print_json({"environments": [environment.model_dump(mode="json") for environment in listed]})
        return
    if not listed:
        typer.echo("There are no environments; tracehouse environments create makes one.", err=True)
    for environment in listed:
        typer.echo(f"{environment.name}: {_describe_packages(environment)}")


@environments.command()
def show(name: Name, as_json: Json = False, state: State = None) -> None:
    """Show an environment: its digest, what it was made for, and its packages one by one."""
    with _environments(state) as installed:
        environment = installed.find(name)
    if as_json:
        print_json(environment.model_dump(mode="json"))
        return
    typer.echo(f"{environment.name} {environment.digest}")
    made_at = f"{environment.created_at:%Y-%m-%dT%H:%M} UTC"
    typer.echo(f"made {made_at} for Python {environment.python} and torch {environment.torch}")
    for package in environment.packages:
        typer.echo(f"{package.name}=={package.version}  imported as {', '.join(package.modules) or 'nothing'}")


@environments.command()
def delete(name: Name, as_json: Json = False, state: State = None) -> None:
    """Delete an environment. What was traced in it is served as before, for artifacts need no Python packages."""
    with _environments(state) as installed:
        removed = installed.delete(name)
    if as_json:
        print_json({"deleted": name, "are_files_removed": removed})
    else:
        typer.echo(f"Environment {name} is deleted.")
    if not removed:
        typer.echo("A trace still uses its files: the next create or delete removes them.", err=True)


@contextmanager
def _environments(state: Path | None) -> "Iterator[Environments]":
    """Open the environments of a state directory. An error is one line, and exit status 2."""
    from service.environments.environments import Environments

    settings = settings_of(state)
    try:
        settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield Environments(settings.environments)
    except EnvironmentNotFound as error:
        refuse(f"{error.title()}; tracehouse environments list shows the names.")
    except OSError as error:
        refuse(f"Cannot use {settings.state_dir} as the state directory ({error.strerror}).")


def _describe_packages(environment: Environment) -> str:
    """Return the packages with their versions."""
    listed = ", ".join(f"{package.name} {package.version}" for package in environment.packages)
    return listed or "nothing that the service does not have itself"
