"""`tracehouse download`: the archive of a version, as a file."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli.artifacts import Part, artifacts_of, choose_part
from service.cli.connection import ServiceOptions, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.versions import NAMED, find_version
from service.cli.written_file import check_place, file_to_write, write_reply


@with_option_groups
def download(
    model: Annotated[str, typer.Argument(help=f"{NAMED}.")],
    file: Annotated[
        Path,
        typer.Argument(parser=file_to_write, help="Where the archive is written. A file there is replaced."),
    ],
    part: Part = None,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """Write the TorchScript archive of a version to a file, for torch.jit.load in Python and C++."""
    check_place(file, "net.pt")
    with connect(service) as client:
        name, version = find_version(client, model)
        artifact = choose_part(artifacts_of(client, version), part)
        byte_size = write_reply(client, f"/artifacts/{artifact['digest']}/archive", file)
    if as_json:
        written = {
            "model": name,
            "version": version["version"],
            "verdict": version["verdict"],
            "digest": artifact["digest"],
            "file": str(file),
            "byte_size": byte_size,
        }
        print_json(written)
    else:
        typer.echo(f"{file}: {name}:{version['version']}, {version['verdict']}, {byte_size:,} bytes")
