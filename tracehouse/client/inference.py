"""Inference over the Open Inference Protocol, with the tensors as bytes."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tracehouse.client.call_tensors import build_answer, holds_torch
from tracehouse.client.called_method import CalledMethod, VersionContracts
from tracehouse.client.documents import Document, read_document
from tracehouse.client.errors import InvalidRequest, NotFound, NotSendable, UnexpectedReply, outside_contract
from tracehouse.client.flow import Ask, Flow, Reply, get_json
from tracehouse.client.forms import ArtifactForm, InferenceForm, ModelForm
from tracehouse.client.paths import inference_path, model_path
from tracehouse.client.results import first_method, read_contract
from tracehouse.client.values import to_numpy, to_torch
from tracehouse.errors import ContractViolation, MethodNotFound
from tracehouse.printable_text import printable
from tracehouse.tensors.tensor import Datatype, Tensor, TensorSpec, split

_JSON_BYTES_HEADER = "Inference-Header-Content-Length"
# How often a call is made again, because another version answers by now than the one whose contract is known.
_ATTEMPTS = 3


class UnsoundAnswer(UserWarning):
    """An answer that the service itself says not to trust."""


@dataclass
class Contracts:
    """The contracts that this client knows, by model and version, and the versions that models answered with."""

    by_version: dict[tuple[str, int], VersionContracts] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def find(self, reference: str) -> Flow[tuple[int, VersionContracts]]:
        """Return the version that a reference stands for, and its contracts."""
        name = _name_of(reference)
        if reference not in self.versions:
            document = yield from get_json(model_path(name), ModelForm)
            self.versions[reference] = _version_of(reference, document)
        version = self.versions[reference]
        if (name, version) not in self.by_version:
            document = yield from get_json(model_path(name), ModelForm)
            found = next((one for one in document["versions"] if one["version"] == version), None)
            if found is None:
                raise NotFound({
                    "title": "There is no such version",
                    "code": "version-not-found",
                    "detail": f"{name} has no version {version}",
                    "remedy": f"ask for one that it has: {_listed(one['version'] for one in document['versions'])}",
                })  # fmt: skip
            self.by_version[name, version] = yield from _read_contracts(found)
        return version, self.by_version[name, version]

    def forget(self, reference: str) -> None:
        """Forget which version a reference stands for."""
        self.versions.pop(reference, None)


def infer(
    contracts: Contracts,
    model: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    method: str | None,
    seed: int | None,
) -> Flow[Any]:
    """Return what a model answers, nested as the model's answer is. Raises OutsideContract, and what asking may."""
    path = inference_path(model)
    for attempt in range(_ATTEMPTS):
        was_known = model in contracts.versions
        version, known = yield from contracts.find(model)
        called = _method_of(known, method)
        try:
            tensors = called.flatten(args, kwargs)
            returns = called.choose_returns(tensors)
        except (ContractViolation, NotSendable) as error:
            if was_known and attempt == 0:  # perhaps of a version that was promoted since
                contracts.forget(model)
                continue
            if isinstance(error, ContractViolation):
                raise outside_contract(error) from error
            raise
        try:
            reply = yield _ask(path, tensors, method, seed)
        except (InvalidRequest, NotFound):
            if not was_known:
                raise
            contracts.forget(model)
            continue
        answered, document, outputs = _read(reply)
        if answered == version:
            _warn(document)
            make = to_torch if holds_torch([*args, *kwargs.values()]) else to_numpy
            try:
                return build_answer(returns, outputs, make)
            except KeyError as error:
                raise UnexpectedReply(f"the answer has no output {error}, which the model returns") from error
        contracts.versions[model] = answered
    raise UnexpectedReply(f"{model} is promoted so often that no call was answered by the version that was asked")


def _ask(path: str, tensors: Sequence[Tensor], method: str | None, seed: int | None) -> Ask:
    parameters: dict[str, Any] = {"binary_data_output": True}
    if method is not None:
        parameters["method"] = method
    if seed is not None:
        parameters["seed"] = seed
    inputs = [
        {
            "name": tensor.name,
            "datatype": tensor.datatype.value,
            "shape": tensor.shape,
            "parameters": {"binary_data_size": len(tensor.data)},
        }
        for tensor in tensors
    ]
    text = orjson.dumps({"inputs": inputs, "parameters": parameters})
    return Ask(
        "POST",
        path,
        headers={_JSON_BYTES_HEADER: str(len(text)), "content-type": "application/octet-stream"},
        content=b"".join([text, *(tensor.data for tensor in tensors)]),
    )


def _read(reply: Reply) -> tuple[int, Document, dict[str, Tensor]]:
    """Return the version that answered, the reply's JSON and its tensors by name. Raises UnexpectedReply."""
    try:
        length = int(reply.headers.get(_JSON_BYTES_HEADER, len(reply.content)))
        document = read_document(reply.content[:length], InferenceForm)
        version = int(document["model_version"])
        specs = [
            TensorSpec(name=one["name"], datatype=Datatype(one["datatype"]), shape=tuple(one["shape"]))
            for one in document["outputs"]
        ]
        body = memoryview(reply.content)[length:]
        if sum(spec.byte_size for spec in specs) != len(body):
            raise UnexpectedReply("the answer has more or fewer bytes than its tensors have")
    except (KeyError, TypeError, ValueError) as error:
        raise UnexpectedReply(f"the answer cannot be read ({error!r})") from error
    return version, document, {tensor.name: tensor for tensor in split(specs, body)}


def _warn(document: Mapping[str, Any]) -> None:
    if text := document.get("parameters", {}).get("warning"):
        warnings.warn(printable(str(text)), UnsoundAnswer, stacklevel=2)


def _method_of(contracts: VersionContracts, name: str | None) -> CalledMethod:
    """Return what is known of a method; by default, of the one that the service calls."""
    known = contracts.methods
    if name is None:
        return contracts.method("forward" if "forward" in known else first_method(known))
    if name not in known:
        raise NotFound({
            "title": MethodNotFound.title(),
            "code": MethodNotFound.slug(),
            "detail": f"there is no method {name!r}: there is {', '.join(known)}",
            "remedy": "ask for a method that was traced; trace the model again with `methods` for another one",
        })  # fmt: skip
    return contracts.method(name)


def _name_of(reference: str) -> str:
    return reference.partition(":")[0].partition("@")[0]


def _version_of(reference: str, model: Mapping[str, Any]) -> int:
    name, colon, version = reference.partition(":")
    if colon and version.isdecimal():
        return int(version)
    _, at, alias = name.partition("@")
    if at:
        found = next((one["version"] for one in model["aliases"] if one["alias"] == alias), None)
        missing = f"{model['name']} has no alias {alias!r}"
        aliases = _listed(one["alias"] for one in model["aliases"])
        remedy = f"ask for one that it has ({aliases}), or set it with client.models.set_alias"
    else:
        found = model["default_version"]
        missing = f"no version of {model['name']} was promoted"
        remedy = f"name a version, as {model['name']}:1, or promote one with client.models.promote"
    if found is None:
        title = "Nothing answers under this name"
        raise NotFound({"title": title, "code": "version-not-found", "detail": missing, "remedy": remedy})
    return int(found)


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names)) or "none"


def _read_contracts(version: Mapping[str, Any]) -> Flow[VersionContracts]:
    """Return the contracts of the artifacts that answer: for the device that is taken if none is named."""
    device = min(version["artifacts"], default=None)
    if device is None:
        raise UnexpectedReply(f"version {version['version']} of the model has no artifact, so that nothing answers")
    buckets = [one for one in version["buckets"] if one["device"] == device]
    contracts = []
    for one in buckets or [{"sizes": {}, "digest": version["artifacts"][device]}]:
        artifact = yield from get_json(f"/artifacts/{one['digest']}", ArtifactForm)
        contracts.append((one["sizes"], read_contract(artifact)))
    return VersionContracts(contracts)
