"""Models: names, their numbered versions, and aliases moved by compare-and-set.

A model is there as long as it has a version.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, exists, insert, select, update

from service.domain.errors import (
    AliasMoved,
    AliasNotFound,
    IfMatchRequired,
    ModelNotFound,
    VersionAliased,
    VersionNotFound,
)
from service.domain.model import Alias, Model, ModelName, ModelRef, ModelVersion
from service.domain.trace_check import Verdict
from service.storage import tables
from service.storage.page import Cursor, Page
from service.storage.transactions import AnyRow, Transactions, upsert

_model = tables.models.c
_version = tables.model_versions.c
_alias = tables.aliases.c
_cursor = Cursor(tuple[ModelName])
# An error names no more of what there is.
_SHOWN_MAX = 20


class Models:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def list(self, limit: int, after: str | None = None) -> Page[Model]:
        """By name. Raises InvalidCursor."""
        names = select(_model.name).where(exists().where(_version.name == _model.name)).order_by(_model.name)
        if after is not None:
            names = names.where(_model.name > _cursor.place(after)[0])
        with self._transactions.read() as connection:
            found = connection.scalars(names.limit(limit + 1)).all()
            models = _models(connection, found)
        return _cursor.page(models, limit, lambda model: (model.name,))

    def get(self, name: str) -> Model:
        """Raises ModelNotFound."""
        with self._transactions.read() as connection:
            _require_model(connection, name)
            return _models(connection, [name])[0]

    def resolve(self, ref: ModelRef) -> ModelVersion:
        """The version that is meant: the latest if neither alias nor version is given.

        Raises ModelNotFound, AliasNotFound and VersionNotFound.
        """
        query = select(tables.model_versions).where(_version.name == ref.name)
        if ref.alias is not None:
            aliased = select(_alias.version).where(_alias.name == ref.name, _alias.alias == ref.alias)
            query = query.where(_version.version == aliased.scalar_subquery())
        elif ref.version is not None:
            query = query.where(_version.version == ref.version)
        with self._transactions.read() as connection:
            row = connection.execute(query.order_by(_version.version.desc()).limit(1)).one_or_none()
            if row is not None:
                return _as_version(row)
            _require_model(connection, ref.name)
            if ref.alias is not None:
                raise _no_alias(ref.name, ref.alias)
            raise _no_version(connection, ref.name, ref.version)

    def put_alias(self, name: str, alias: str, version: int, expected_etag: str | None) -> Alias:
        """Make the alias, or move it from where `expected_etag` says it is ("*": wherever it is).

        Raises ModelNotFound, VersionNotFound, IfMatchRequired and AliasMoved.
        """
        with self._transactions.write() as connection:
            _lock(connection, name)
            _require_version(connection, name, version)
            _compare(_find_alias(connection, name, alias), expected_etag)
            counted = update(tables.models).where(_model.name == name).values(last_revision=_model.last_revision + 1)
            moved = Alias(
                alias=alias,
                version=version,
                revision=connection.execute(counted.returning(_model.last_revision)).scalar_one(),
            )
            put = upsert(connection, tables.aliases).values(name=name, **moved.model_dump())
            place = {"version": moved.version, "revision": moved.revision}
            connection.execute(put.on_conflict_do_update(index_elements=[_alias.name, _alias.alias], set_=place))
        return moved

    def delete(self, name: str) -> None:
        """With all versions and aliases. Raises ModelNotFound."""
        with self._transactions.write() as connection:
            _lock(connection, name)
            connection.execute(delete(tables.aliases).where(_alias.name == name))
            connection.execute(delete(tables.model_versions).where(_version.name == name))

    def delete_version(self, name: str, version: int) -> None:
        """Raises ModelNotFound, VersionNotFound and VersionAliased."""
        with self._transactions.write() as connection:
            _lock(connection, name)
            _require_version(connection, name, version)
            pointing = select(_alias.alias).where(_alias.name == name, _alias.version == version)
            aliases = connection.scalars(pointing.order_by(_alias.alias)).all()
            if aliases:
                raise VersionAliased("an alias points at this version", name=name, version=version, aliases=[*aliases])
            connection.execute(delete(tables.model_versions).where(_version.name == name, _version.version == version))

    def delete_alias(self, name: str, alias: str) -> None:
        """Raises ModelNotFound and AliasNotFound."""
        with self._transactions.write() as connection:
            _lock(connection, name)
            if _find_alias(connection, name, alias) is None:
                raise _no_alias(name, alias)
            connection.execute(delete(tables.aliases).where(_alias.name == name, _alias.alias == alias))


def register(connection: Connection, name: str, artifacts: dict[str, str], verdict: Verdict, trace_request: str) -> int:
    """The next version of `name`; part of the transaction that finishes a trace request."""
    first = upsert(connection, tables.models).values(name=name, last_version=1, last_revision=0)
    following = first.on_conflict_do_update(
        index_elements=[_model.name], set_={"last_version": _model.last_version + 1}
    )
    version: int = connection.execute(following.returning(_model.last_version)).scalar_one()
    connection.execute(
        insert(tables.model_versions).values(
            name=name,
            version=version,
            artifacts=artifacts,
            verdict=verdict.value,
            trace_request=trace_request,
            created_at=datetime.now(UTC),
        )
    )
    return version


def _models(connection: Connection, names: Sequence[str]) -> list[Model]:
    """Those of the names that have a version, in the order given."""
    # Aliases first: so none that is read points at a version that came after the versions were read.
    aliases: dict[str, list[Alias]] = {name: [] for name in names}
    for row in connection.execute(select(tables.aliases).where(_alias.name.in_(names)).order_by(_alias.alias)):
        aliases[row.name].append(_as_alias(row))
    versions: dict[str, list[ModelVersion]] = {name: [] for name in names}
    query = select(tables.model_versions).where(_version.name.in_(names)).order_by(_version.version)
    for row in connection.execute(query):
        versions[row.name].append(_as_version(row))
    return [Model(name=name, versions=versions[name], aliases=aliases[name]) for name in names if versions[name]]


def _as_version(row: AnyRow) -> ModelVersion:
    return ModelVersion(
        version=row.version,
        artifacts=row.artifacts,
        verdict=Verdict(row.verdict),
        trace_request=row.trace_request,
        created_at=row.created_at,
    )


def _as_alias(row: AnyRow) -> Alias:
    return Alias(alias=row.alias, version=row.version, revision=row.revision)


def _lock(connection: Connection, name: str) -> None:
    """Let nobody else change the model until the transaction ends. SQLite's write lock covers it already."""
    connection.execute(select(_model.name).where(_model.name == name).with_for_update())
    _require_model(connection, name)


def _require_model(connection: Connection, name: str) -> None:
    if connection.scalar(select(exists().where(_version.name == name))):
        return
    names = connection.scalars(select(_version.name).distinct().order_by(_version.name).limit(_SHOWN_MAX)).all()
    request = tables.trace_requests.c
    rejected = (
        select(request.id)
        .where(request.model_name == name, request.verdict == Verdict.REJECTED.value, request.model_version.is_(None))
        .order_by(request.created_at.desc())
        .limit(1)
    )
    refused = connection.scalar(rejected)
    if refused is not None:
        raise ModelNotFound(
            "its trace was rejected, so no version was registered", name=name, models=[*names], rejected=refused,
            remedy=f"GET /trace/{refused} has the findings; submit it with accept_unsound to have it all the same.",
        )  # fmt: skip
    raise ModelNotFound("there is no model of this name", name=name, models=[*names])


def _require_version(connection: Connection, name: str, version: int) -> None:
    if not connection.scalar(select(exists().where(_version.name == name, _version.version == version))):
        raise _no_version(connection, name, version)


def _find_alias(connection: Connection, name: str, alias: str) -> Alias | None:
    query = select(tables.aliases).where(_alias.name == name, _alias.alias == alias)
    row = connection.execute(query).one_or_none()
    return None if row is None else _as_alias(row)


def _compare(alias: Alias | None, expected_etag: str | None) -> None:
    if alias is None and expected_etag is not None:
        raise AliasMoved("the alias is not there", expected=expected_etag, actual=None)
    if alias is None or expected_etag in ("*", alias.etag):
        return
    if expected_etag is None:
        raise IfMatchRequired("the alias is there already: say where you move it from", actual=alias.etag)
    raise AliasMoved("the alias was moved meanwhile", expected=expected_etag, actual=alias.etag)


def _no_version(connection: Connection, name: str, version: int | None) -> VersionNotFound:
    newest = select(_version.version).where(_version.name == name).order_by(_version.version.desc()).limit(_SHOWN_MAX)
    versions = connection.scalars(newest).all()
    return VersionNotFound("the model has no such version", name=name, version=version, versions=[*versions])


def _no_alias(name: str, alias: str) -> AliasNotFound:
    return AliasNotFound("the model has no such alias", name=name, alias=alias)
