"""Models: a tenant's names, their numbered versions, and aliases moved by compare-and-set.

A model is there as long as it has a version. What is another tenant's is not there.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from pydantic import ValidationError
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Text,
    and_,
    cast,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)

from service.domain.audit import SERVICE, Actor
from service.domain.errors import (
    AliasMoved,
    AliasNotFound,
    ContentDamaged,
    DefaultVersionMoved,
    IfMatchRequired,
    ModelNotFound,
    NothingToMoveBackTo,
    TooManyAliases,
    TooManyPinned,
    VersionAliased,
    VersionIsDefault,
    VersionNotFound,
)
from service.domain.model import Alias, Model, ModelRef, ModelVersion, Moved, MovedBack
from service.domain.outcome import Succeeded
from service.domain.promotion import Promotion, ServedVersion, decide_promotion
from service.domain.serving_options import ModelKey, PinnedModel, ServingOptions
from service.domain.trace_request import State
from service.storage import tables
from service.storage.artifacts import read_contract, read_withdrawals
from service.storage.audit import record
from service.storage.page import Cursor, Page
from service.storage.quotas import Room
from service.storage.transactions import AnyRow, Transactions, upsert
from tracehouse.contract.contract import Contract
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.model_name import ModelName

_model = tables.models.c
_version = tables.model_versions.c
_alias = tables.aliases.c
_request = tables.trace_requests.c
_cursor = Cursor(tuple[ModelName])
# Versions, each with what its trace request says of its promotion.
_VERSIONS = select(tables.model_versions, _request.promotion).join(
    tables.trace_requests, _request.id == _version.trace_request, isouter=True
)
_OPTIONS = select(_model.tenant, _model.name, *(_model[option] for option in ServingOptions.model_fields))
# In the words of the index: SQLite takes no other.
_IS_PINNED = text("models.pinned")
_IS_DEFAULT = _version.version == _model.default_version
# SQLite takes some ten thousand values in a statement. Chosen.
_ASKED_AT_ONCE = 1000
# A model has at most so many, for each reply that shows it has all of them. Chosen: most models have a few.
ALIASES_MAX = 100
# A tenant has at most so many pinned models: each process that answers reads them every second. Chosen.
PINNED_MAX = 1000
# A page of models has at most so many versions, unless it has one model: with 2,000, a page takes half a second.
_LISTED_MAX = 500
# An error names at most so many models or versions.
_NAMED_MAX = 20

# What became of the newest request for a model that has no version.
_SO_FAR = {
    State.QUEUED: "waits",
    State.RUNNING: "runs",
    State.SUCCEEDED: "ran in mode eager",
    State.FAILED: "failed",
    State.CANCELLED: "was cancelled",
}


class Models:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def list(self, tenant: str, limit: int, after: str | None = None) -> Page[Model]:
        """Return a page of models in the order of their names, shorter where they have many versions.

        Raises InvalidCursor.
        """
        has_version = exists().where(_version.tenant == tenant, _version.name == _model.name)
        names = select(_model.name).where(_model.tenant == tenant, has_version).order_by(_model.name)
        if after is not None:
            names = names.where(_model.name > _cursor.place(after)[0])
        with self._transactions.read() as connection:
            found = connection.scalars(names.limit(limit + 1)).all()
            page = _cursor.page(found, _fitting(connection, tenant, found[:limit]), lambda name: (name,))
            return Page(_models(connection, tenant, page.items), page.next_cursor)

    def get(self, tenant: str, name: str) -> Model:
        """Return a model. Raises ModelNotFound."""
        with self._transactions.read() as connection:
            _require_model(connection, tenant, name)
            return _models(connection, tenant, [name])[0]

    def last_write(self, tenant: str) -> Hashable:
        """Return a value that changes whenever this process writes a model, version or alias of the tenant."""
        return self._transactions.last_write(tenant, tables.models, tables.model_versions, tables.aliases)

    def resolve(self, tenant: str, ref: ModelRef) -> ModelVersion:
        """Return the version that a reference names; the default version if it has neither alias nor version.

        Raises ModelNotFound, AliasNotFound and VersionNotFound.
        """
        query = _VERSIONS.where(_belongs_to(tables.model_versions, tenant, ref.name))
        if ref.alias is not None:
            aliased = select(_alias.version).where(
                _belongs_to(tables.aliases, tenant, ref.name), _alias.alias == ref.alias
            )
            query = query.where(_version.version == aliased.scalar_subquery())
        elif ref.version is not None:
            query = query.where(_version.version == ref.version)
        else:
            default = select(_model.default_version).where(_belongs_to(tables.models, tenant, ref.name))
            query = query.where(_version.version == default.scalar_subquery())
        with self._transactions.read() as connection:
            row = connection.execute(query).one_or_none()
            if row is not None:
                return _as_version(row)
            _require_model(connection, tenant, ref.name)
            if ref.alias is not None:
                raise _no_alias(ref.name, ref.alias)
            raise _no_version(connection, tenant, ref.name, ref.version)

    def serving(self, tenant: str, name: str) -> ServingOptions:
        """Return how the model is served; the usual options for one that is not there."""
        with self._transactions.read() as connection:
            row = connection.execute(_OPTIONS.where(_belongs_to(tables.models, tenant, name))).one_or_none()
            return ServingOptions() if row is None else _as_options(row)

    def serving_of_all(self, models: Collection[ModelKey]) -> dict[ModelKey, ServingOptions]:
        """Return how these models are served, those that are there."""
        # By tenant: SQLite finds no pair of columns in a list by an index.
        names: dict[str, list[str]] = {}
        for tenant, name in models:
            names.setdefault(tenant, []).append(name)
        found = {}
        with self._transactions.read() as connection:
            for tenant, its in names.items():
                for first in range(0, len(its), _ASKED_AT_ONCE):
                    asked = _model.name.in_(its[first : first + _ASKED_AT_ONCE])
                    for row in connection.execute(_OPTIONS.where(_model.tenant == tenant, asked)):
                        found[ModelKey(tenant, row.name)] = _as_options(row)
        return found

    def pinned(self) -> Sequence[PinnedModel]:
        """Return the pinned models of all tenants that have a default version, with that.

        A version of which an artifact is withdrawn answers nothing, and is none.
        """
        its_default = and_(_belongs_to(tables.model_versions, _model.tenant, _model.name), _IS_DEFAULT)
        options = (_model[option] for option in ServingOptions.model_fields)
        query = select(_version.tenant, _version.name, _version.version, _version.withdrawn, *options)
        query = query.join_from(tables.models, tables.model_versions, its_default).where(_IS_PINNED)
        with self._transactions.read() as connection:
            rows = connection.execute(query.order_by(_model.tenant, _model.name)).all()
        return [
            PinnedModel(ModelKey(row.tenant, row.name), row.version, _as_options(row))
            for row in rows
            if not row.withdrawn
        ]

    def set_serving(
        self, tenant: str, name: str, changes: Mapping[str, Any], *, by: Actor = SERVICE, room: Room | None = None
    ) -> Model:
        """Change some of the model's serving options, by their names, and return it.

        Raises ModelNotFound, TooManyPinned and StorageQuotaExceeded.
        """
        with self._transactions.write() as connection:
            _lock(connection, tenant, name)
            if changes.get("pinned"):
                _check_pinned(connection, tenant, name)
            _change_model(connection, tenant, name, **changes)
            record(connection, by, tenant, "model.change", name, room=room, **changes)
            return _models(connection, tenant, [name])[0]

    def promote(
        self,
        tenant: str,
        name: str,
        version: int,
        expected: int | None = None,
        *,
        move_back_after: int | None = None,
        by: Actor = SERVICE,
        room: Room | None = None,
    ) -> int | None:
        """Make a version the default version if the present one is the `expected`; return the one before.

        An `expected` of 0 is that there is none yet, and None that any may be.
        After `move_back_after` answers of the version that are not those of the model, that one is the default again.

        Raises ModelNotFound, VersionNotFound, DefaultVersionMoved, NothingToMoveBackTo and StorageQuotaExceeded.
        """
        with self._transactions.write() as connection:
            lock_version(connection, tenant, name, version)
            before = _default_version(connection, tenant, name)
            if expected is not None and (before or 0) != expected:
                detail = f"version {expected} is not the default version" if expected else "there is a default version"
                raise DefaultVersionMoved(detail, name=name, expected=expected, actual=before)
            limit = {}
            if move_back_after is not None:
                limit = {
                    "move_back_after": move_back_after,
                    "move_back_to": _default_before(connection, tenant, name, version),
                    "counted_from": _count_different(connection, tenant, name, version),
                }
            _set_default(connection, tenant, name, version, **limit)
            about = {} if move_back_after is None else {"move_back_after": move_back_after}
            record(connection, by, tenant, "model.promote", name, room=room, version=version, before=before, **about)
        return before

    def put_alias(
        self,
        tenant: str,
        name: str,
        alias: str,
        version: int,
        expected_etag: str | None,
        *,
        move_back_after: int | None = None,
        by: Actor = SERVICE,
        room: Room | None = None,
    ) -> Alias:
        """Make the alias, or move it if `expected_etag` is its current ETag or "*".

        After `move_back_after` answers of the version that are not those of the model, it moves back to the version
        that it pointed at before.

        Raises ModelNotFound, VersionNotFound, IfMatchRequired, AliasMoved, NothingToMoveBackTo, TooManyAliases and
        StorageQuotaExceeded.
        """
        with self._transactions.write() as connection:
            lock_version(connection, tenant, name, version)
            present = _find_alias(connection, tenant, name, alias)
            _check_etag(present, expected_etag)
            if present is None:
                _check_aliases(connection, tenant, name)
            moved = Alias(
                alias=alias,
                version=version,
                revision=_next_revision(connection, tenant, name),
                move_back_after=move_back_after,
                move_back_to=None if move_back_after is None else _version_before(present, version, name, alias),
            )
            values = moved.model_dump() | {"counted_from": _count_different(connection, tenant, name, version)}
            put = upsert(connection, tables.aliases).values(tenant=tenant, name=name, **values)
            place = {column: value for column, value in values.items() if column != "alias"}
            connection.execute(put.on_conflict_do_update(index_elements=tables.aliases.primary_key.columns, set_=place))
            about = {} if move_back_after is None else {"move_back_after": move_back_after}
            record(connection, by, tenant, "alias.put", f"{name}@{alias}", room=room, version=version, **about)
        return moved

    def delete(self, tenant: str, name: str, *, by: Actor = SERVICE) -> None:
        """Delete a model with all versions and aliases. Raises ModelNotFound."""
        with self._transactions.write() as connection:
            _lock(connection, tenant, name)
            for table in (tables.aliases, tables.live_checks, tables.model_versions):
                connection.execute(delete(table).where(_belongs_to(table, tenant, name)))
            _set_default(connection, tenant, name, None)
            _change_model(connection, tenant, name, **ServingOptions().model_dump())
            record(connection, by, tenant, "model.delete", name)

    def delete_version(self, tenant: str, name: str, version: int, *, by: Actor = SERVICE) -> None:
        """Delete a version. Of several, the default version cannot be deleted.

        Raises ModelNotFound, VersionNotFound, VersionAliased and VersionIsDefault.
        """
        with self._transactions.write() as connection:
            lock_version(connection, tenant, name, version)
            names_it = or_(_alias.version == version, _alias.move_back_to == version)
            pointing = select(_alias.alias).where(_belongs_to(tables.aliases, tenant, name), names_it)
            aliases = connection.scalars(pointing.order_by(_alias.alias)).all()
            if aliases:
                detail = "an alias points at this version, or is to be moved back to it"
                raise VersionAliased(detail, name=name, version=version, aliases=[*aliases])
            if version == _move_back_to(connection, tenant, name):
                detail = (
                    f"{name!r} is to be moved back to version {version} where the live check finds its default wrong"
                )
                raise VersionIsDefault(detail, name=name, version=version, versions=[])
            if version == _default_version(connection, tenant, name):
                others = _newest_versions(connection, tenant, name, _version.version != version)
                if others:
                    detail = f"version {version} answers requests to {name!r} that name no version"
                    raise VersionIsDefault(detail, name=name, version=version, versions=others)
                _set_default(connection, tenant, name, None)
            for table in (tables.live_checks, tables.model_versions):
                there = _belongs_to(table, tenant, name), table.c.version == version
                connection.execute(delete(table).where(*there))
            record(connection, by, tenant, "version.delete", f"{name}:{version}")

    def delete_alias(self, tenant: str, name: str, alias: str, *, by: Actor = SERVICE) -> None:
        """Delete an alias. Raises ModelNotFound and AliasNotFound."""
        with self._transactions.write() as connection:
            _lock(connection, tenant, name)
            if _find_alias(connection, tenant, name, alias) is None:
                raise _no_alias(name, alias)
            there = _belongs_to(tables.aliases, tenant, name), _alias.alias == alias
            connection.execute(delete(tables.aliases).where(*there))
            record(connection, by, tenant, "alias.delete", f"{name}@{alias}")


def register(connection: Connection, tenant: str, outcome: Succeeded, trace_request: str) -> tuple[int, Promotion]:
    """Register the outcome as the next version of its model, within a transaction.

    Return the version, and whether it became the default version. The model's row is locked from the first statement
    on, so of two that are registered at once the second is compared with what the first left.
    """
    first = upsert(connection, tables.models).values(tenant=tenant, name=outcome.name, last_version=1, last_revision=0)
    following = first.on_conflict_do_update(
        index_elements=tables.models.primary_key.columns, set_={"last_version": _model.last_version + 1}
    )
    version: int = connection.execute(following.returning(_model.last_version)).scalar_one()
    withdrawn = read_withdrawals(connection, tenant, [one.digest for one in outcome.artifacts])
    connection.execute(
        insert(tables.model_versions).values(
            tenant=tenant,
            name=outcome.name,
            version=version,
            artifacts=outcome.by_device,
            buckets=outcome.buckets,
            withdrawn=withdrawn,
            verdict=outcome.verdict.value,
            trace_request=trace_request,
            created_at=datetime.now(UTC),
        )
    )
    default = _read_default(connection, tenant, outcome.name) if outcome.promote == "auto" else None
    new = ServedVersion(version, outcome.verdict, outcome.contracts, is_withdrawn=bool(withdrawn))
    promotion = decide_promotion(outcome.promote, new, default)
    if promotion.promoted:
        before = _default_version(connection, tenant, outcome.name)
        _set_default(connection, tenant, outcome.name, version)
        about: dict[str, Any] = {"version": version, "before": before, "trace_request": trace_request}
        record(connection, SERVICE, tenant, "model.promote", outcome.name, **about)
    return version, promotion


def version_has_artifact(digest: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a version has the artifact, for one of its devices or buckets."""
    return or_(*(cast(column, Text).contains(digest) for column in (_version.artifacts, _version.buckets)))


def lock_version(connection: Connection, tenant: str, name: str, version: int) -> None:
    """Lock the model of a version until the transaction ends. Raises ModelNotFound and VersionNotFound."""
    _lock(connection, tenant, name)
    _require_version(connection, tenant, name, version)


def move_back(connection: Connection, tenant: str, name: str, version: int, different: int) -> list[Moved]:
    """Move what points at a version back for which so many answers were too many that were not those of the model.

    The model is locked. An alias, or the default, stays where the version before was withdrawn, for that would answer
    nothing.
    """
    return [
        *_move_back_default(connection, tenant, name, version, different),
        *_move_back_aliases(connection, tenant, name, version, different),
    ]


def _move_back_default(connection: Connection, tenant: str, name: str, version: int, different: int) -> Iterator[Moved]:
    is_due = _model.counted_from + _model.move_back_after <= different  # null, so not true, without a limit
    query = select(tables.models).where(_belongs_to(tables.models, tenant, name), _model.default_version == version)
    row = connection.execute(query.where(is_due)).one_or_none()
    if row is None or _is_withdrawn(connection, tenant, name, row.move_back_to):
        return
    back = MovedBack(version=version, different=different - row.counted_from, at=datetime.now(UTC))
    _set_default(connection, tenant, name, row.move_back_to, moved_back=back)
    about = {"version": row.move_back_to, "before": version, "different": back.different}
    record(connection, SERVICE, tenant, "model.move_back", name, **about)
    yield Moved(reference=name, version=row.move_back_to)


def _move_back_aliases(connection: Connection, tenant: str, name: str, version: int, different: int) -> Iterator[Moved]:
    is_due = _alias.counted_from + _alias.move_back_after <= different  # null, so not true, without a limit
    query = select(tables.aliases).where(_belongs_to(tables.aliases, tenant, name), _alias.version == version, is_due)
    for row in connection.execute(query).all():
        if _is_withdrawn(connection, tenant, name, row.move_back_to):
            continue
        back = MovedBack(version=version, different=different - row.counted_from, at=datetime.now(UTC))
        alias = Alias(
            alias=row.alias,
            version=row.move_back_to,
            revision=_next_revision(connection, tenant, name),
            moved_back=back,
        )
        itself = _belongs_to(tables.aliases, tenant, name), _alias.alias == row.alias
        values = alias.model_dump() | {"moved_back": back, "counted_from": None}
        connection.execute(update(tables.aliases).where(*itself).values(values))
        about: dict[str, Any] = {"version": alias.version, "before": version, "different": back.different}
        record(connection, SERVICE, tenant, "alias.move_back", f"{name}@{row.alias}", **about)
        yield Moved(reference=f"{name}@{row.alias}", version=alias.version)


def _is_withdrawn(connection: Connection, tenant: str, name: str, version: int) -> bool:
    there = _belongs_to(tables.model_versions, tenant, name), _version.version == version
    return bool(connection.scalar(select(_version.withdrawn).where(*there)))


def withdraw_from_versions(connection: Connection, tenant: str, digests: Sequence[str], trace_request: str) -> None:
    """Note in each version that has one of the artifacts that the trace request's check refuted it."""
    for digest in digests:
        there = _version.tenant == tenant, version_has_artifact(literal(digest))
        for row in connection.execute(select(tables.model_versions).where(*there)).all():
            itself = _belongs_to(tables.model_versions, tenant, row.name), _version.version == row.version
            noted = {**(row.withdrawn or {}), digest: trace_request}
            connection.execute(update(tables.model_versions).where(*itself).values(withdrawn=noted))


def _read_default(connection: Connection, tenant: str, name: str) -> ServedVersion | None:
    """Return the default version with its contracts, or as withdrawn if a later check has refuted one of them."""
    default = _default_version(connection, tenant, name)
    if default is None:
        return None
    query = select(tables.model_versions).where(_belongs_to(tables.model_versions, tenant, name))
    row = connection.execute(query.where(_version.version == default)).one()
    digests = [(bucket.device, bucket.digest) for bucket in row.buckets or []]
    with_buckets = {device for device, _ in digests}
    digests += [(device, digest) for device, digest in row.artifacts.items() if device not in with_buckets]
    if row.withdrawn:
        return ServedVersion(default, Verdict(row.verdict), None, is_withdrawn=True)
    contracts: dict[str, list[Contract]] = {}
    try:
        for device, digest in digests:
            contracts.setdefault(device, []).append(read_contract(connection, digest))
    except (ValidationError, ContentDamaged):
        return ServedVersion(default, Verdict(row.verdict), None)
    return ServedVersion(default, Verdict(row.verdict), contracts)


def _default_version(connection: Connection, tenant: str, name: str) -> int | None:
    return connection.scalar(select(_model.default_version).where(_belongs_to(tables.models, tenant, name)))


def _move_back_to(connection: Connection, tenant: str, name: str) -> int | None:
    return connection.scalar(select(_model.move_back_to).where(_belongs_to(tables.models, tenant, name)))


def _default_before(connection: Connection, tenant: str, name: str, version: int) -> int:
    """Return the default version before it is set to this one. Raises NothingToMoveBackTo."""
    before = _default_version(connection, tenant, name)
    if before == version:
        before = _move_back_to(connection, tenant, name)
    if before is None:
        detail = f"it is not known which other version was the default before {version}, so none could be moved back to"
        raise NothingToMoveBackTo(detail, name=name, version=version)
    return before


def _set_default(connection: Connection, tenant: str, name: str, version: int | None, **limit: Any) -> None:
    """Set the default version, and when it is moved back, which else nothing does."""
    unlimited = dict.fromkeys(("move_back_after", "move_back_to", "counted_from", "moved_back"))
    _change_model(connection, tenant, name, default_version=version, **unlimited | limit)


def _change_model(connection: Connection, tenant: str, name: str, **values: Any) -> None:
    connection.execute(update(tables.models).where(_belongs_to(tables.models, tenant, name)).values(values))


def _belongs_to(
    table: FromClause, tenant: str | ColumnElement[str], name: str | ColumnElement[str]
) -> ColumnElement[bool]:
    """Return the condition that a row of the table belongs to the model."""
    return and_(table.c.tenant == tenant, table.c.name == name)


def _check_aliases(connection: Connection, tenant: str, name: str) -> None:
    """Raise TooManyAliases if the model may have no more."""
    count = select(func.count()).where(_belongs_to(tables.aliases, tenant, name))
    if connection.execute(count).scalar_one() >= ALIASES_MAX:
        raise TooManyAliases(f"a model may have {ALIASES_MAX} aliases", name=name, limit=ALIASES_MAX)


def _check_pinned(connection: Connection, tenant: str, name: str) -> None:
    """Raise TooManyPinned if the tenant may pin no further model than it has pinned beside this one."""
    others = select(func.count()).where(_model.tenant == tenant, _IS_PINNED, _model.name != name)
    if connection.execute(others).scalar_one() >= PINNED_MAX:
        raise TooManyPinned(f"a tenant may have {PINNED_MAX} pinned models", limit=PINNED_MAX)


def _fitting(connection: Connection, tenant: str, names: Sequence[str]) -> int:
    """Return how many of these models a page has: one, and as many more as have few versions together."""
    counting = select(_version.name, func.count().label("versions")).where(
        _version.tenant == tenant, _version.name.in_(names)
    )
    versions: dict[str, int] = {row.name: row.versions for row in connection.execute(counting.group_by(_version.name))}
    listed = accumulate(versions.get(name, 0) for name in names)
    return max(1, sum(total <= _LISTED_MAX for total in listed))


def _models(connection: Connection, tenant: str, names: Sequence[str]) -> list[Model]:
    """Return the models of these names that have a version, in the given order."""
    # Aliases and default versions are read first: otherwise one could be a version that came after they were read.
    aliases: dict[str, list[Alias]] = {name: [] for name in names}
    query = select(tables.aliases).where(_alias.tenant == tenant, _alias.name.in_(names)).order_by(_alias.alias)
    for row in connection.execute(query):
        aliases[row.name].append(_as_alias(row))
    versions: dict[str, list[ModelVersion]] = {name: [] for name in names}
    named = select(tables.models).where(_model.tenant == tenant, _model.name.in_(names))
    rows = {row.name: row for row in connection.execute(named)}
    query = _VERSIONS.where(_version.tenant == tenant, _version.name.in_(names))
    for row in connection.execute(query.order_by(_version.version)):
        versions[row.name].append(_as_version(row))
    return [
        Model(
            name=name,
            default_version=rows[name].default_version,
            move_back_after=rows[name].move_back_after,
            move_back_to=rows[name].move_back_to,
            moved_back=rows[name].moved_back,
            serving=_as_options(rows[name]),
            versions=versions[name],
            aliases=aliases[name],
        )
        for name in names
        if versions[name]
    ]


def _as_options(row: AnyRow) -> ServingOptions:
    return ServingOptions(**{name: getattr(row, name) for name in ServingOptions.model_fields})


def _as_version(row: AnyRow) -> ModelVersion:
    return ModelVersion(
        version=row.version,
        artifacts=row.artifacts,
        buckets=row.buckets or [],
        withdrawn=row.withdrawn or {},
        verdict=Verdict(row.verdict),
        trace_request=row.trace_request,
        promotion=row.promotion,
        created_at=row.created_at,
    )


def _as_alias(row: AnyRow) -> Alias:
    return Alias(
        alias=row.alias,
        version=row.version,
        revision=row.revision,
        move_back_after=row.move_back_after,
        move_back_to=row.move_back_to,
        moved_back=row.moved_back,
    )


def _lock(connection: Connection, tenant: str, name: str) -> None:
    """Lock the model until the transaction ends; SQLite's write lock does that already. Raises ModelNotFound."""
    connection.execute(select(_model.name).where(_belongs_to(tables.models, tenant, name)).with_for_update())
    _require_model(connection, tenant, name)


def _require_model(connection: Connection, tenant: str, name: str) -> None:
    if connection.scalar(select(exists().where(_belongs_to(tables.model_versions, tenant, name)))):
        return
    known = select(_version.name).distinct().where(_version.tenant == tenant).order_by(_version.name)
    names = connection.scalars(known.limit(_NAMED_MAX)).all()
    request = tables.trace_requests.c
    newest = (
        select(request.id, request.state, request.verdict)
        .where(request.tenant == tenant, request.model_name == name, request.model_version.is_(None))
        .order_by(request.created_at.desc())
        .limit(1)
    )
    request_row = connection.execute(newest).one_or_none()
    if request_row is None:
        raise ModelNotFound("there is no model of this name", name=name, models=[*names])
    if request_row.verdict == Verdict.REJECTED.value:
        raise ModelNotFound(
            "its trace was rejected, so no version was registered", name=name, models=[*names], rejected=request_row.id,
            remedy=f"GET /trace/{request_row.id} has the findings; accept_unsound registers it all the same.",
        )  # fmt: skip
    so_far = _SO_FAR[State(request_row.state)]
    raise ModelNotFound(
        f"there is no model of this name; a trace request for it {so_far}",
        name=name,
        models=[*names],
        trace_request=request_row.id,
        remedy=f"GET /trace/{request_row.id} has its state; a model exists once a trace was accepted.",
    )


def _require_version(connection: Connection, tenant: str, name: str, version: int) -> None:
    there = exists().where(_belongs_to(tables.model_versions, tenant, name), _version.version == version)
    if not connection.scalar(select(there)):
        raise _no_version(connection, tenant, name, version)


def _find_alias(connection: Connection, tenant: str, name: str, alias: str) -> Alias | None:
    query = select(tables.aliases).where(_belongs_to(tables.aliases, tenant, name), _alias.alias == alias)
    row = connection.execute(query).one_or_none()
    return None if row is None else _as_alias(row)


def _version_before(present: Alias | None, version: int, name: str, alias: str) -> int:
    """Return the version that an alias pointed at before it is set to this one. Raises NothingToMoveBackTo."""
    if present is not None and present.version != version:
        return present.version
    if present is None or present.move_back_to is None:
        detail = f"the alias has pointed at no other version than {version}, so that it could not be moved back"
        raise NothingToMoveBackTo(detail, name=name, alias=alias, version=version)
    return present.move_back_to


def _next_revision(connection: Connection, tenant: str, name: str) -> int:
    following = {"last_revision": _model.last_revision + 1}
    counted = update(tables.models).where(_belongs_to(tables.models, tenant, name)).values(following)
    revision: int = connection.execute(counted.returning(_model.last_revision)).scalar_one()
    return revision


def _count_different(connection: Connection, tenant: str, name: str, version: int) -> int:
    """Return how many answers of the version were not those of the model."""
    there = _belongs_to(tables.live_checks, tenant, name), tables.live_checks.c.version == version
    return connection.scalar(select(tables.live_checks.c.different).where(*there)) or 0


def _check_etag(alias: Alias | None, expected_etag: str | None) -> None:
    if alias is None and expected_etag is not None:
        raise AliasMoved("the alias does not exist", expected=expected_etag, actual=None)
    if alias is None or expected_etag in ("*", alias.etag):
        return
    if expected_etag is None:
        raise IfMatchRequired("the alias exists already: say which state you change", actual=alias.etag)
    raise AliasMoved("the alias was moved meanwhile", expected=expected_etag, actual=alias.etag)


def _no_version(connection: Connection, tenant: str, name: str, version: int | None) -> VersionNotFound:
    versions = _newest_versions(connection, tenant, name)
    if version is not None:
        return VersionNotFound("the model has no such version", name=name, version=version, versions=versions)
    return VersionNotFound(
        "no version of the model was promoted, and the request names none", name=name, version=None, versions=versions,
        remedy=f"Ask for a version, as in {name}:{versions[0]}, or make it the default version: "
        f"POST /models/{name}/promote.",
    )  # fmt: skip


def _newest_versions(connection: Connection, tenant: str, name: str, *conditions: ColumnElement[bool]) -> list[int]:
    """Return so many versions as an error names."""
    known = select(_version.version).where(_belongs_to(tables.model_versions, tenant, name), *conditions)
    return [*connection.scalars(known.order_by(_version.version.desc()).limit(_NAMED_MAX))]


def _no_alias(name: str, alias: str) -> AliasNotFound:
    return AliasNotFound("the model has no such alias", name=name, alias=alias)
