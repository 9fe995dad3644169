"""Serving options: how a model is served, for all its versions and under all its names."""

from typing import NamedTuple

from tracehouse.frozen import Frozen


class ServingOptions(Frozen):
    """What is None is as the service's settings say.

    A `bitwise` model is answered with bytes that depend on nobody who asks at the same time. A process of the model
    that nobody has asked for `idle_s` seconds is ended; with 0, none is. The processes of the default version of a
    `pinned` model are kept ready, as far as the tenant's share of the memory goes. A process computes with so many
    `threads`, and so many `replicas` of it answer.
    """

    bitwise: bool = False
    idle_s: float | None = None
    pinned: bool = False
    threads: int | None = None
    replicas: int | None = None


class ModelKey(NamedTuple):
    """A model of a tenant."""

    tenant: str
    name: str


class PinnedModel(NamedTuple):
    """A pinned model, its default version, and how it is served."""

    model: ModelKey
    version: int
    serving: ServingOptions
