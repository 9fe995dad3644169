"""The part of the studio that shows a model: its versions, and of one version how it is asked."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from service.api.context import AppContext
from service.api.model_reply import ModelReply, VersionReply, describe_model
from service.api.studio import snippets
from service.api.studio.comparison import read_inlined_graph, traced_of
from service.api.studio.rendering import render
from service.domain.errors import PictureNotTaken, VersionNotFound
from service.serving.picture_input import PictureInput, image_readings, picture_input
from service.storage.database import Store
from tracehouse.artifact.manifest import Artifact
from tracehouse.artifact.printouts import EncodedPrintout
from tracehouse.contract.dims import format_sizes
from tracehouse.findings.verdict_sentence import verdict_sentence
from tracehouse.report.causes import causes_of
from tracehouse.report.changes import Changes, compare
from tracehouse.report.check_section import render_depending_rows
from tracehouse.report.contract_section import render_contract
from tracehouse.report.verdict_note import SIGNS, verdict_note


@dataclass(frozen=True, slots=True)
class ModelPart:
    """What the page of a model shows: all of its versions, and of one version the artifact that answers first."""

    reply: ModelReply
    version: VersionReply
    artifact: Artifact
    device: str
    graph: EncodedPrintout | None
    pictures: dict[str, PictureInput]  # by the methods that take pictures
    beside: "ModelPart | None"


def read_model(
    context: AppContext, tenant: str, name: str, number: int | None, beside: int | None, *, has_graph: bool = False
) -> ModelPart:
    """Return a model with one of its versions, and the version `beside` it. Raises VersionNotFound."""
    store = context.store
    model = store.models.get(tenant, name)
    reply = describe_model(context, tenant, model)
    version = find_version(reply, number or reply.default_version or max(one.version for one in reply.versions))
    device, digest = next(iter(version.artifacts.items()))
    [trace_request] = [one.trace_request for one in model.versions if one.version == version.version]
    return ModelPart(
        reply=reply,
        version=version,
        artifact=store.artifacts.get(tenant, digest),
        device=device,
        pictures=_picture_inputs(store, tenant, trace_request, digests_of(version).values()),
        graph=read_inlined_graph(store, tenant, digest) if has_graph or beside is not None else None,
        beside=None if beside is None else read_model(context, tenant, name, beside, None, has_graph=True),
    )


def _picture_inputs(store: Store, tenant: str, trace_request: str, digests: Collection[str]) -> dict[str, PictureInput]:
    """Return the inputs that pictures become, by the methods of a version that take them as `POST /infer` does."""
    readings = image_readings(store.trace_requests.get(tenant, trace_request).spec.check.samples)
    contracts = [store.artifacts.get(tenant, digest).contract for digest in digests] if readings else []
    found = {}
    for method, read in readings.items():
        with suppress(PictureNotTaken):
            found[method] = picture_input([contract.methods[method] for contract in contracts], read)
    return found


def render_model(model: ModelPart, address: str) -> str:
    """Return the part in HTML; `address` is the service's, for those who copy a snippet."""
    reference = f"{model.reply.name}:{model.version.version}"
    contract = model.artifact.contract
    return render(
        "model_part.html",
        model=model.reply,
        version=model.version,
        device=model.device,
        signs=SIGNS,
        note=verdict_note(model.artifact),
        rows_depend=render_depending_rows(model.artifact.check),
        sentence=verdict_sentence(model.artifact.check, contract),
        contract=render_contract(model.artifact),
        beside=model.beside.version if model.beside else None,
        changes=_changes(model.beside, model) if model.beside else None,
        methods=contract.methods,
        pictures=model.pictures,
        snippets={
            name: snippets.of_method(method, name, reference, address, takes_pictures=name in model.pictures)
            for name, method in contract.methods.items()
        },
    )


def _changes(before: ModelPart, after: ModelPart) -> Changes:
    earlier, later = (
        traced_of(causes_of(one.artifact.check.findings), one.artifact, one.graph) for one in (before, after)
    )
    return compare(earlier, later)


def find_version(model: ModelReply, number: int) -> VersionReply:
    """Return the version with this number. Raises VersionNotFound."""
    version = next((one for one in model.versions if one.version == number), None)
    if version is None:
        raise VersionNotFound(f"{model.name} has no version {number}", name=model.name, version=number)
    return version


def digests_of(version: VersionReply) -> dict[str, str]:
    """Return the digest of each of a version's artifacts, by its device and its bucket."""
    if version.buckets:
        return {f"{one.device}, {format_sizes(one.sizes)}": one.digest for one in version.buckets}
    return version.artifacts
