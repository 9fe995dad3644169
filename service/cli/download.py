"""`tracehouse download`: the archive of a version, as a file."""

import os
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from service.cli.connection import DEFAULT_URL, Client, Json, Key, Url, explain_errors
from service.cli.versions import NAMED, artifacts_of, describe_part, find_version


def download(
    model: Annotated[str, typer.Argument(help=f"{NAMED}.")],
    file: Annotated[Path, typer.Argument(help="Where the archive is written. A file there is replaced.")],
    part: Annotated[
        str | None,
        typer.Option(metavar="PART", help="Which archive, if the version has several: cuda, or 'cpu, seq 16'."),
    ] = None,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Write the TorchScript archive of a version to a file, for torch.jit.load in Python and C++."""
    if file.is_dir():
        raise typer.BadParameter(f"{file} is a folder: name a file in it, such as {file / 'net.pt'}")
    if not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {file.absolute().parent}")
    with explain_errors(url):
        client = Client(url, key)
        name, version = find_version(client, model)
        artifact = _choose({describe_part(one): one for one in artifacts_of(client, version)}, part)
        byte_size = _write(client, f"/artifacts/{artifact['digest']}/archive", file)
    if as_json:
        written = {
            "model": name,
            "version": version["version"],
            "verdict": version["verdict"],
            "digest": artifact["digest"],
            "file": str(file),
            "byte_size": byte_size,
        }
        typer.echo(orjson.dumps(written, option=orjson.OPT_INDENT_2))
    else:
        typer.echo(f"{file}: {name}:{version['version']}, {version['verdict']}, {byte_size:,} bytes")


def _choose(parts: dict[str, Any], wanted: str | None) -> Any:
    """Return the artifact that is wanted; without a wish, the only one. Raises typer.BadParameter."""
    if wanted is None and len(parts) == 1:
        return next(iter(parts.values()))
    if wanted is not None and wanted in parts:
        return parts[wanted]
    raise typer.BadParameter(f"say which archive with --part: {' or '.join(repr(each) for each in parts)}")


def _write(client: Client, path: str, file: Path) -> int:
    """Write what the service answers, and return its size. The file is there only once it is whole."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as written:
            byte_size = client.download_to(path, written)
        part.replace(file)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return byte_size
