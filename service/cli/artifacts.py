"""The artifacts of a version or a trace request: one for each device or for each bucket."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from service.cli.connection import Client
from service.cli.forms import ArtifactReportForm
from tracehouse.contract.dims import format_sizes

Document = dict[str, Any]

Part = Annotated[
    str | None,
    typer.Option("--part", metavar="PART", help="Which artifact, if there are several: cuda, or 'cpu, seq 16'."),
]


def read_artifacts(client: Client, digests: Iterable[str]) -> list[Document]:
    """Return what the service says of these artifacts, each once."""
    return [client.get(f"/artifacts/{digest}", ArtifactReportForm) for digest in dict.fromkeys(digests)]


def artifacts_of(client: Client, version: Document) -> list[Document]:
    """Return the artifacts of a version."""
    return read_artifacts(client, [one["digest"] for one in version["buckets"]] or version["artifacts"].values())


def describe_part(artifact: Document) -> str:
    """Return what the artifact is for: a device, and with buckets a size."""
    return ", ".join(filter(None, [artifact["device"], format_sizes(artifact["bucket"])]))


def choose_part(artifacts: Sequence[Document], wanted: str | None) -> Document:
    """Return the artifact that is wanted; without a wish, the only one. Raises typer.BadParameter."""
    parts = {describe_part(one): one for one in artifacts}
    if wanted is None and len(parts) == 1:
        return next(iter(parts.values()))
    if wanted is not None and wanted in parts:
        return parts[wanted]
    if not parts:
        raise typer.BadParameter("there is no artifact: mode eager traces nothing")
    raise typer.BadParameter(f"say which artifact with --part: {' or '.join(repr(each) for each in parts)}")
