"""What the tests of several packages share: a process to fork from, artifacts, stores, pids, and waiting."""

import gc
import io
import os
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import func, select

from service.domain.errors import StorageQuotaExceeded
from service.domain.quotas import Quotas
from service.environments.environments import Environments
from service.sandbox import choose_tier
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote
from service.storage import tables
from service.storage.blobs import Blobs
from service.storage.database import Store
from service.storage.stored_bytes import ROW_COSTS
from tests.s3_server import Bucket, S3Server
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.manifest import Artifact, Versions
from tracehouse.contract.contract import Contract
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict

if TYPE_CHECKING:
    import torch

# Nothing that a test waits for takes longer, however busy the machine is: no outcome is to hang on its speed.
PATIENCE_S = 300.0
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
TENANT = "ours"
NO_ENVIRONMENTS = Environments(Path("/nonexistent"))
NO_BLOB = BlobRef(digest="sha256:" + "0" * 64, byte_size=0)


# Of the slow suite, the files that take longest: run side by side, they begin before all others, so that none is left
# alone at the end.
LONGEST_FIRST = [
    "corpus/test_check_of_wrong_models.py",
    "corpus/test_check_of_right_models.py",
    "service/sandbox/test_attacks.py",
    "adversary/test_connections.py",
    "adversary/test_lost_hosts.py",
    "adversary/test_turns.py",
    "service/sandbox/test_zygote.py",
    "workers/test_attempt.py",
    "adversary/test_tracing_slots.py",
    "service/serving/test_hostile_runner.py",
    "adversary/test_unread_replies.py",
    "service/sandbox/test_tiers.py",
    "service/api/test_connection.py",
]


# Files with many tests of one kind, half of what CI does after `make test`. With TEST_PART=2/3, of the tests that have
# parameters the second third is run, one in three: CI takes another third at each commit. `make test-all` runs all.
IN_PARTS = [
    "acceptance/test_torch_features.py",
    "acceptance/test_tutorial_and_guides.py",
    "corpus/test_check_of_right_models.py",
    "corpus/test_check_of_wrong_models.py",
    "service/sandbox/test_attacks.py",
]


class Trace(Protocol):
    def __call__(
        self,
        blobs: Blobs,
        module: "torch.nn.Module",
        *args: Any,
        verdict: Verdict = ...,
        freeze: bool = ...,
        **kwargs: Any,
    ) -> Artifact: ...


@pytest.fixture(scope="session")
def _s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(_s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A new one on a real server process; the environment says how to reach it."""
    for name, value in _s3_server.environment.items():
        monkeypatch.setenv(name, value)
    _s3_server.start()  # a test before may have stopped it
    return _s3_server.create_bucket()


@cache
def offered_tiers() -> list[Tier]:
    """Every tier that holds here, found out once: it takes a zygote for each."""
    return choose_tier.tiers_that_hold()


@pytest.fixture(scope="session")
def tier() -> Tier:
    """The strongest that this machine offers: what is submitted in tests runs as it does in the service."""
    return choose_tier.choose()


@pytest.fixture(scope="session")
def environments() -> Iterator[Environments]:
    """What `torch_zygote` can be given packages from. In a directory that jailed code can enter as another user."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        environments = Environments(Path(directory, "environments"))
        environments.prepare()
        yield environments


@pytest.fixture(scope="session")
def torch_zygote(tier: Tier, environments: Environments) -> Iterator[Zygote]:
    """The service's, with a program of the tests: one for all tests, because torch takes seconds to load."""
    programs = [
        "workers.programs.tracer",
        "workers.programs.reference",
        "workers.programs.runner",
        "workers.programs.packer",
        "workers.programs.picture_reader",
        "programs.convolves",
        "programs.echo",
    ]
    with Zygote(
        ["workers.programs.tracer_warmup", *programs],
        tier=tier,
        path=[Path(__file__).parent / "service" / "sandbox"],
        packages=environments.directory,
        forks_often=True,
    ) as zygote:
        yield zygote


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if part := os.environ.get("TEST_PART"):
        others = _of_other_parts(items, *map(int, part.split("/")))
        config.hook.pytest_deselected(items=[*others])
        items[:] = [item for item in items if item not in others]
    if config.option.markexpr == "slow":
        place = {Path(__file__).parent / name: number for number, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: place.get(item.path, len(place)))


def _of_other_parts(items: list[pytest.Item], part: int, parts: int) -> set[pytest.Item]:
    in_parts = {Path(__file__).parent / name for name in IN_PARTS}
    numbers = Counter[Path]()
    others = set()
    for item in items:
        if item.path not in in_parts or not hasattr(item, "callspec"):
            continue
        numbers[item.path] += 1
        if numbers[item.path] % parts != part % parts:
            others.add(item)
    return others


def pytest_runtest_setup() -> None:
    """CI has an end, after which it would say nothing at all: where a machine is too slow for it, it says that."""
    if time() > float(os.environ.get("TESTS_UNTIL", "inf")):
        pytest.skip("the time for all tests was over: this machine is slower than CI is meant for")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only slow tests are run, leave out the files that have none: to import them all takes half a minute."""
    if config.option.markexpr != "slow" or not collection_path.match("test_*.py"):
        return None
    return True if "mark.slow" not in collection_path.read_text() else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep the garbage collector from what is imported: nearly all of it stays, and to go through it again and again
    takes a fourth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep the garbage collector from all that stays: going through it takes a fifth of a check's time."""
    gc.collect()
    gc.freeze()


def wait_until(holds: Callable[[], bool]) -> None:
    """For what nothing announces. The longer it takes, the more seldom it is asked, and the less that costs."""
    began = monotonic()
    while not holds():
        waited = monotonic() - began
        assert waited < PATIENCE_S, "it did not come to hold"
        sleep(min(0.005 + waited / 10, 0.05))


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


NewStore = Callable[[Path], Store]


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables and no rows, to be copied: its migrations take longer than most tests."""
    directory = tmp_path_factory.mktemp("migrated")
    _open(directory).close()
    return directory / "tracehouse.db"


@pytest.fixture(scope="session")
def new_store(migrated_file: Path) -> NewStore:
    """A new store in this directory. Its tables are a copy: tests/service/storage makes them as the service does."""

    def new_store(directory: Path) -> Store:
        shutil.copy(migrated_file, directory)
        return _open(directory)

    return new_store


@pytest.fixture
def store(new_store: NewStore, tmp_path: Path) -> Iterator[Store]:
    store = new_store(tmp_path)
    yield store
    store.close()


def _open(directory: Path) -> Store:
    return Store.open(f"sqlite:///{directory / 'tracehouse.db'}", (directory / "blobs").as_uri())


def make_artifact(**changes: Any) -> Artifact:
    """One of nothing but what is said."""
    nothing: dict[str, Any] = {
        "device": "cpu",
        "entrypoint": "net:Net",
        "contract": Contract(methods={}),
        "check": TraceCheck(verdict=Verdict.VERIFIED, comparisons=[], findings=[], torch=TorchCheck(ran=False)),
        "archive": NO_BLOB,
        "printouts": NO_BLOB,
        "golden": NO_BLOB,
        "freeze": False,
        "submodules": [],
        "parameters": [],
        "buffers": [],
        "versions": Versions(torch="2", python="3", tracehouse="0"),
    }
    return Artifact(**(nothing | changes))


@pytest.fixture(scope="session")
def trace() -> Trace:
    """An artifact of the module's `forward` on these arguments, its files kept as blobs, and nothing checked.

    A module that draws random numbers needs a `seed`.
    """
    return _trace


def _trace(
    blobs: Blobs,
    module: "torch.nn.Module",
    *args: Any,
    verdict: Verdict = Verdict.VERIFIED,
    freeze: bool = False,
    seed: int | None = None,
    **kwargs: Any,
) -> Artifact:
    # Here and not above: most tests need no torch, whose import takes seconds.
    import torch

    from tracehouse.differential import golden
    from tracehouse.eager import observed_contract
    from tracehouse.eager.call import bake, bind
    from tracehouse.torch_values import returned, structure, tensors

    module.eval()
    call = bind(module, "forward", "forward", args, kwargs)
    if seed is not None:
        torch.manual_seed(seed)
    with torch.no_grad():
        outputs = call.run(module)
    call = call.returning(structure.describe(outputs, "output"), strict=False)
    answered = returned.tensors(outputs)
    case = golden.GoldenCase("forward", tensors.pack(call.tensors), tensors.pack(answered), seed)
    archive = io.BytesIO()
    bake(module, {"forward": call}, {})
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        inputs = {"forward": call.artifact_args}
        torch.jit.save(torch.jit.trace_module(module, inputs, strict=False, check_trace=False), archive)
    contract = observed_contract.observe({"forward": call}, {"forward": outputs})
    return make_artifact(
        contract=contract.with_stochastic([] if seed is None else ["forward"]),
        check=TraceCheck(verdict=verdict, comparisons=[], findings=[], torch=TorchCheck(ran=False)),
        archive=keep(blobs, archive.getvalue()),
        printouts=keep(blobs, b"[]"),
        golden=keep(blobs, golden.encode([case])),
        freeze=freeze,
    )


def stored_bytes(store: Store, tenant: str = TENANT) -> int:
    """What counts against the tenant's quota, without what stays when it deletes all, and what is being written."""
    return counted_bytes(store, tenant) - lasting_bytes(store, tenant)


def counted_bytes(store: Store, tenant: str = TENANT) -> int:
    """What counts against the tenant's quota, without what is being written."""
    nothing = Quotas(stored_max_bytes=-1)
    with store.allowances.open(tenant, nothing) as allowance, pytest.raises(StorageQuotaExceeded) as refused:
        allowance.take(0)
    return int(refused.value.facts["stored_bytes"])


def lasting_bytes(store: Store, tenant: str = TENANT) -> int:
    """What the tenant's audit log counts, its keys, and the names of its models."""
    total = log_bytes(store, tenant)
    for table in (tables.api_keys, tables.models):
        with store.models._transactions.read() as connection:
            names = connection.scalars(select(table.c.name).where(table.c.tenant == tenant)).all()
        total += sum(ROW_COSTS[table].other_bytes + len(name.encode()) for name in names)
    return total


def log_bytes(store: Store, tenant: str = TENANT) -> int:
    """What the tenant's audit log counts."""
    entry = tables.audit_log.c
    counted = select(func.coalesce(func.sum(entry.stored_bytes), 0)).where(entry.tenant == tenant)
    with store.audit_log._transactions.read() as connection:
        return int(connection.execute(counted).scalar_one())


def damage(blobs: Blobs, digest: str) -> None:
    """Flip a bit of a stored blob in a directory."""
    path = Path(blobs._path(digest))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def keep(blobs: Blobs, data: bytes) -> BlobRef:
    with blobs.stage() as staged:
        staged.write(data)
        return staged.commit()
