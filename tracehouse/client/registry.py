"""The registry: models, their versions and aliases, and which version answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from tracehouse.client.errors import NotFound
from tracehouse.client.flow import Ask, Flow, get_json, get_list
from tracehouse.client.forms import AliasForm, ModelForm, ModelPage, PromotionForm
from tracehouse.client.paths import alias_path, model_path, version_path


@dataclass(frozen=True)
class Version:
    """A version of a model. `digests` has its artifact by device."""

    version: int
    verdict: str
    digests: Mapping[str, str] = field(hash=False)
    created_at: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Version":
        return cls(document["version"], document["verdict"], document["artifacts"], document["created_at"])


class Serving(TypedDict, total=False):
    """How a model is served. None: as the service's settings say."""

    bitwise: bool
    idle_s: float | None
    pinned: bool
    threads: int | None
    replicas: int | None


@dataclass(frozen=True)
class Model:
    """A model: the version that answers under its bare name, all versions, and the versions of its aliases.

    The bytes that a `bitwise` model answers depend on nobody who asks at the same time. A process of the model that
    nobody has asked for `idle_s` seconds is ended; 0: none is. None: as the service's setting says. The processes of
    the default version of a `pinned` model are kept ready. A process computes with so many `threads`; None: as the
    service's setting says. So many `replicas` of it answer; None: as the service's setting says.
    """

    name: str
    default_version: int | None
    versions: Sequence[Version]
    aliases: Mapping[str, int] = field(hash=False)
    bitwise: bool = False
    idle_s: float | None = None
    pinned: bool = False
    threads: int | None = None
    replicas: int | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Model":
        return cls(
            name=document["name"],
            default_version=document["default_version"],
            versions=[Version.of(one) for one in document["versions"]],
            aliases={one["alias"]: one["version"] for one in document["aliases"]},
            bitwise=document.get("bitwise", False),  # an earlier release has no such options
            idle_s=document.get("idle_s"),
            pinned=document.get("pinned", False),
            threads=document.get("threads"),
            replicas=document.get("replicas"),
        )


def version_target(version: int, move_back_after: int | None) -> dict[str, int]:
    """Return what the routes that promote a version, or point an alias at it, take."""
    return {"version": version, **({} if move_back_after is None else {"move_back_after": move_back_after})}


class RegistryFlows:
    """What can be asked of the registry, as flows."""

    def _list(self) -> Flow[list[Model]]:
        """Return all models, in the order of their names."""
        documents = yield from get_list("/models", "models", ModelPage)
        return [Model.of(one) for one in documents]

    def _get(self, name: str) -> Flow[Model]:
        """Return a model. Raises NotFound."""
        document = yield from get_json(model_path(name), ModelForm)
        return Model.of(document)

    def _promote(self, name: str, version: int, *, move_back_after: int | None = None) -> Flow[int | None]:
        """Let a version answer under the model's bare name. Return the one that did before.

        After `move_back_after` answers that the service's live check finds wrong, that one answers again by itself.
        """
        reply = yield Ask("POST", f"{model_path(name)}/promote", json=version_target(version, move_back_after))
        previous: int | None = reply.json(PromotionForm)["previous_version"]
        return previous

    def _set_alias(self, name: str, alias: str, version: int, *, move_back_after: int | None = None) -> Flow[None]:
        """Point an alias at a version, whether it exists or not. Raises Conflict if somebody moved it meanwhile.

        After `move_back_after` answers that the service's live check finds wrong, it moves back by itself.
        """
        path = alias_path(name, alias)
        try:
            present = yield from get_json(path, AliasForm)
            condition = {"if-match": present["etag"]}
        except NotFound:
            condition = {"if-none-match": "*"}
        yield Ask("PUT", path, headers=condition, json=version_target(version, move_back_after))

    def _set_bitwise(self, name: str, bitwise: bool = True) -> Flow[Model]:
        """Have all versions of a model served bitwise, or no longer so, and return the model. Raises NotFound.

        The bytes of its answers then depend on nobody who asks at the same time.
        """
        model = yield from self._set_serving(name, bitwise=bitwise)
        return model

    def _set_serving(self, name: str, **changes: Unpack[Serving]) -> Flow[Model]:
        """Change how all versions of a model are served, and return the model. Raises NotFound, and Conflict if as many
        models are pinned as may be.

        What is not named stays as it is. None: as the service's setting says.
        """
        reply = yield Ask("PATCH", model_path(name), json={**changes})
        return Model.of(reply.json(ModelForm))

    def _delete_alias(self, name: str, alias: str) -> Flow[None]:
        """Delete an alias. Its version stays."""
        yield Ask("DELETE", alias_path(name, alias))

    def _delete_version(self, name: str, version: int) -> Flow[None]:
        """Delete a version. Raises Conflict while an alias points at it, or while it answers and there are others."""
        yield Ask("DELETE", version_path(name, version))

    def _delete(self, name: str) -> Flow[None]:
        """Delete a model with all versions and aliases."""
        yield Ask("DELETE", model_path(name))
