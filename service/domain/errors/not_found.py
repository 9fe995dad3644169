"""Errors of look-ups: nothing has this name or number."""

from tracehouse.errors import NotFound


class TraceRequestNotFound(NotFound):
    """There is no trace request with this id

    Use the `id` in the reply to `POST /trace`; `GET /trace` lists them.
    """


class OutputsNotFound(NotFound):
    """This trace request has no outputs

    Only a trace request in mode eager has outputs, once it has succeeded.
    """


class ArtifactNotFound(NotFound):
    """There is no artifact with this digest

    Use the digest in `artifacts` of a trace request that succeeded.
    """


class CounterexampleNotFound(NotFound):
    """The artifact, or the version, has no such counterexample

    `counterexamples` in the artifact's manifest lists them, and of a version those in `live_check` in
    `GET /models/{name}`; the first has the number 0.
    """


class SignatureNotFound(NotFound):
    """The artifact is not signed

    Trace the model again with `force`: the artifact of that trace is signed.
    """


class SigningKeyNotFound(NotFound):
    """The service never had a signing key with this id

    `GET /signing-keys` lists the keys.
    """


class ExportedProgramNotFound(NotFound):
    """The artifact has no exported program

    Trace the model with `options.exportability`; the artifact's `exportability` then says whether the export succeeded.
    """


class ModelNotFound(NotFound):
    """There is no model of this name

    `GET /models` lists the names; a model exists once a trace request for it has made a version.
    """


class VersionNotFound(NotFound):
    """The model has no such version

    `GET /models/{name}` lists its versions.
    """


class AliasNotFound(NotFound):
    """The model has no such alias

    `GET /models/{name}` lists its aliases.
    """


class ApiKeyNotFound(NotFound):
    """There is no API key with this prefix

    `GET /keys` and `tracehouse keys list` list them.
    """


class TenantNotFound(NotFound):
    """There is no tenant of this name

    `GET /tenants` lists those that have keys, trace requests or quotas of their own.
    """


class WebhookNotFound(NotFound):
    """There is no webhook with this id

    `GET /webhooks` lists them.
    """
