"""The wiring: builds the whole service from its settings. Nothing else builds its parts."""

import ctypes
import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import uvicorn
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from service import limits, telemetry
from service.api.app import create_app, create_inference_app, prepare_routes
from service.api.context import AppContext
from service.api.fast_path import FastPath
from service.api.held_bytes import HeldBytes
from service.api.http.bearer import tenant_lately
from service.api.http.connection import close_vanished
from service.api.http.places import Places
from service.domain.api_key import Token
from service.domain.errors import ApiKeyInvalid, TooMuchArrives, TooMuchUnread
from service.domain.first_key import FirstKey
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import TraceRequest
from service.engine.further_check import FurtherChecks
from service.engine.sweeper import Sweeper
from service.environments.environments import Environments
from service.process_parts import address_of, open_engine, open_signer, server_config, start_telemetry
from service.processes import in_background, in_process
from service.sandbox.tiers import Tier
from service.sandbox.torch_probe import require_gpu
from service.sandbox.zygote import Zygote
from service.serving.bitwise import Bitwise
from service.serving.forms import Forms
from service.serving.inference import Inference
from service.serving.keeper import Keeper
from service.serving.live_check import LiveChecker
from service.serving.machine import machine_kind
from service.serving.pictures import PICTURE_READER, Pictures
from service.serving.pool import Pool
from service.serving.processors import find_processors, read_idle_s
from service.serving.replica_changes import ReplicaChanges
from service.serving.thread_counts import ThreadCounts
from service.settings import Settings
from service.signing.signing_keys import SigningKeys
from service.storage.database import Store
from service.turns import Place, Turns, on_thread
from service.webhooks.sender import Sender
from tracehouse.byte_units import MIB
from tracehouse.spec.raced_form import package_versions
from tracehouse.spec.trace_spec import CheckBudget
from workers.attempt import MODULES
from workers.form_race import FormRunner
from workers.live_check import TwinRunner
from workers.processes.artifact import RUNNER
from workers.thread_trial import ThreadRunner
from workers.worker import Worker

if TYPE_CHECKING:
    from service.api.grpc.server import GrpcServer

# all: everything. api: no traces. infer: inference alone.
Role = Literal["all", "api", "infer"]

# What the zygote imports: the programs of traces, and that which reads pictures; and what is left of them where a
# process only answers, which is there in less than half of the time and takes 120 MiB less.
_MODULES = (*MODULES, PICTURE_READER)
_MODULES_OF_ANSWERS = ("workers.programs.runner_warmup", RUNNER, PICTURE_READER)
# macOS reports an infinite limit and refuses to set one.
_FILES_ENOUGH = 2**16
_M_MMAP_THRESHOLD = -3  # malloc.h
# Objects, some megabytes of them. Python's own 700 are those of a few requests.
_COLLECTED_AFTER = 20_000

log = logging.getLogger(__name__)


class NoUsableKey(Exception):
    """Every caller must have a key, and all that there are have expired or were revoked."""


class GrpcMissing(Exception):
    """The packages that gRPC needs are not installed."""


class FirstKeyUnusable(Exception):
    """FIRST_KEY_FILE has no key."""


def run(
    settings: Settings,
    listening: socket.socket,
    *,
    keys_required: bool,
    tier: Tier,
    on_first_key: Callable[[FirstKey], object],
    on_ready: Callable[[str, str | None], object],
    role: Role = "all",
) -> None:
    """Serve on a bound socket until a signal comes. Raises what `build` raises, and TelemetryUnusable.

    `on_ready` is called with the address of HTTP, and that of gRPC if there is one.
    """
    _return_large_blocks()
    start_telemetry("tracehouse-infer" if role == "infer" else "tracehouse")
    places = Places(connections_max=_connections_max(settings), address_max=settings.address_connections_max)
    host = listening.getsockname()[0]
    app = build(
        settings,
        keys_required=keys_required,
        tier=tier,
        on_first_key=on_first_key,
        host=host,
        role=role,
    )
    context: AppContext = app.state.context
    context.connections["http"] = places.count
    config = server_config(
        app,
        settings,
        places,
        context.exchanges.count_problem,
        grace_s=settings.shutdown_grace_s,
        find_tenant=partial(tenant_lately, context),
        fast_path=FastPath(context, has_cors=bool(settings.cors_origins)) if _has_fast_path(settings) else None,
    )
    close_vanished(listening, settings.request_idle_s)
    Server(config, on_ready).run([listening])
    telemetry.stop()


def _has_fast_path(settings: Settings) -> bool:
    """Whether small requests are answered before there is a task for them: they have no span then."""
    return settings.fast_path == "on" and not telemetry.is_on()


def _connections_max(settings: Settings) -> int:
    possible = _raise_open_files_max() // 4
    if possible < settings.connections_max:
        log.warning("fewer files can be opened than CONNECTIONS_MAX needs", extra={"connections_max": possible})
    return min(settings.connections_max, possible)


def _return_large_blocks() -> None:
    """Have the C library return large blocks to the system when they are freed, such as those of a reply that was read.

    By itself, glibc keeps blocks up to the size of the largest one that was freed before, at most 32 MiB.
    """
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, MIB)


def _spare_collector() -> None:
    """Keep the garbage collector from what stays: it would go through half a million objects while requests wait.

    Requests leave few circles, so that it also need not look after every few hundred objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_AFTER, *gc.get_threshold()[1:])


def _raise_open_files_max() -> int:
    """Raise the number of files that this process may open as far as the system lets it, and return that number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _FILES_ENOUGH
    raised = _FILES_ENOUGH if hard == resource.RLIM_INFINITY else max(soft, min(hard, _FILES_ENOUGH))
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised


def build(
    settings: Settings,
    *,
    keys_required: bool,
    tier: Tier,
    on_first_key: Callable[[FirstKey], object],
    host: str = "127.0.0.1",
    role: Role = "all",
) -> FastAPI:
    """Build the service with its engine. It starts and stops with the app's lifespan, once.

    With another role than `all`, it leaves trace requests to the workers of other processes, which needs PostgreSQL.
    With the role `infer`, it answers inference alone, makes no key, signs nothing, and leaves what is done now and then
    to others.

    If every caller must have a key and there never was one, `on_first_key` gets the one that is made. `host` is the
    address that gRPC listens on. Raises NoGpu, NoUsableKey, FirstKeyUnusable, SigningKeyUnusable, BlobUrlUnusable and
    GrpcMissing.
    """
    new_grpc = None if settings.grpc_port is None else _import_grpc()
    trace_limits = limits.trace_limits(settings)
    if settings.gpu_slots:
        require_gpu(tier, trace_limits.for_child("cpu"))
    environments = Environments(settings.environments)
    signing_keys = SigningKeys(settings.signing_keys, settings.signing_key)
    modules = _modules(settings, role)
    walls = tier.walls(modules).with_readable([str(environments.directory)])
    signer = None if role == "infer" else open_signer(signing_keys, tier, walls)
    public_keys = signing_keys.public_keys(signer.public_key if signer else None)
    store = Store.open(settings.database, settings.blobs, limits.cache_limits(settings))
    if keys_required and role != "infer":
        _require_key(store, settings.first_key_file, on_first_key)
    environments.prepare()
    zygote = Zygote(modules, settings.preload, tier=tier, packages=environments.directory, forks_often=True)
    quotas = limits.quotas(settings) if keys_required else NO_QUOTAS
    worker = Worker(store, zygote, environments, trace_limits, settings.trace_attempts, quotas, signer)
    further_checks = FurtherChecks(store, environments, version("torch"))
    engine = open_engine(
        settings,
        store,
        worker,
        further_checks,
        {"cpu": settings.trace_slots, "gpu": settings.gpu_slots} if role == "all" else {},
        quotas,
    )
    sweeper = Sweeper(store, limits.retention_rules(settings), settings.sweep_every_s)
    sender = Sender(store, settings.webhook_networks or ())
    forms = _open_forms(settings, zygote, store)
    pool = Pool(
        zygote,
        store.blobs,
        limits.pool_limits(settings),
        devices=_devices(settings),
        forms=forms,
        thread_counts=_open_thread_counts(settings, zygote, store),
        replica_changes=_open_replica_changes(settings),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(_start, zygote)
        await run_in_threadpool(engine.start)
        if role != "infer":
            sweeper.start()
            sender.start()
        if grpc is not None:
            await grpc.start()
        async with Keeper(store, context.inference, pool):
            yield
        if grpc is not None:
            await grpc.stop()
        # The server has answered every request or given up on it: inference that still runs is cut, traces are queued.
        await context.inference.close()
        await run_in_threadpool(engine.stop, settings.shutdown_grace_s)
        await run_in_threadpool(sweeper.stop)
        await run_in_threadpool(sender.stop)
        await run_in_threadpool(zygote.close)
        await run_in_threadpool(store.close)

    def turns_for(running_max: int, place: Place) -> Turns:
        return Turns(limits.turn_limits(settings, running_max, keys_required=keys_required), place)

    context = AppContext(
        store=store,
        engine=engine,
        environments=environments,
        further_checks=further_checks,
        inference=Inference(
            store,
            pool,
            memory_max_bytes=limits.call_memory_bytes(settings),
            only_called=settings.served_sizes == "called",
            live_checker=_open_live_checker(settings, zygote, store, environments, further_checks, quotas, pool),
            bitwise=Bitwise(settings.bitwise, machine=machine_kind, torch_version=version("torch")),
        ),
        forms=forms,
        pictures=Pictures(zygote, limits.picture_limits(settings)),
        limits=limits.request_limits(settings),
        turns=turns_for(settings.request_threads, on_thread),
        transfers=turns_for(settings.request_threads, on_thread),
        drawings=turns_for(settings.drawing_processes, in_background),
        parsings=turns_for(settings.parsing_processes, in_process),
        submissions=turns_for(settings.parsing_processes, in_background),
        decodings=turns_for(settings.parsing_processes, on_thread),
        arriving=HeldBytes(limits.arriving_limits(settings, keys_required=keys_required), TooMuchArrives),
        unread=HeldBytes(limits.unread_limits(settings, keys_required=keys_required), TooMuchUnread),
        quotas=quotas,
        keys_required=keys_required,
        sandbox_health=lambda: zygote.health,
        tier=tier,
        state_dir=settings.state_dir,
        torch_version=version("torch"),
        signing_keys=public_keys,
        webhook_networks=settings.webhook_networks or (),
    )
    grpc = None
    if new_grpc is not None and settings.grpc_port is not None:
        grpc = new_grpc(context, limits.grpc_limits(settings, host, settings.grpc_port, keys_required=keys_required))
    make_app = create_inference_app if role == "infer" else create_app
    app = make_app(context, lifespan, cors_origins=settings.cors_origins or ())
    app.state.grpc = grpc
    return app


def _start(zygote: Zygote) -> None:
    zygote.start()
    for warning in zygote.warnings:
        log.warning(warning)


def _modules(settings: Settings, role: Role) -> tuple[str, ...]:
    """Return what the zygote imports: all, unless no model in Python is ever run here."""
    return _MODULES if role == "all" or settings.live_check_share else _MODULES_OF_ANSWERS


def _devices(settings: Settings) -> tuple[str, ...]:
    return ("cpu", "cuda") if settings.gpu_slots else ("cpu",)


def _open_forms(settings: Settings, zygote: Zygote, store: Store) -> Forms | None:
    """Return what races forms; None if only the form as saved answers."""
    if settings.served_forms == "saved":
        return None
    race = FormRunner(zygote, store.blobs, limits.trial_limits(settings))
    return Forms(
        settings.forms,
        race.run,
        machine=machine_kind,
        torch_version=version("torch"),
        packages=package_versions(),
    )


def _open_thread_counts(settings: Settings, zygote: Zygote, store: Store) -> ThreadCounts | None:
    """Return what measures numbers of threads; None if one is set."""
    if settings.runner_threads != "measured":
        return None
    trial = ThreadRunner(zygote, store.blobs, limits.trial_limits(settings))
    return ThreadCounts(
        settings.thread_counts,
        trial.run,
        threads_max=limits.threads_max(settings),
        machine=machine_kind,
        torch_version=version("torch"),
    )


def _open_replica_changes(settings: Settings) -> ReplicaChanges | None:
    """Return what says how many runners a load is worth; None if a number is set."""
    if settings.runner_replicas != "measured":
        return None
    return ReplicaChanges(len(find_processors()), read_idle_s)


def _open_live_checker(
    settings: Settings,
    zygote: Zygote,
    store: Store,
    environments: Environments,
    further_checks: FurtherChecks,
    quotas: Quotas,
    pool: Pool,
) -> LiveChecker | None:
    """Return what compares a share of the answers with the models in Python; None if that is none of them."""
    if settings.live_check_share == 0:
        return None

    def plan(tenant: str, digest: str) -> TraceRequest:
        return further_checks.plan(tenant, digest, CheckBudget())

    twins = TwinRunner(store, zygote, environments, plan, limits.twin_limits(settings), call_s=settings.infer_timeout_s)
    return LiveChecker(store, twins, limits.live_check_limits(settings), quotas, pool.has_room)


def _import_grpc() -> "type[GrpcServer]":
    """Import what speaks gRPC, for which a service without it need not have the packages. Raises GrpcMissing."""
    # gRPC looks for these when it is imported. Its own lines are not those of our log, and any client could fill them;
    # and what the service forks becomes another program at once.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    try:
        from service.api.grpc.server import GrpcServer
    except ImportError as error:
        raise GrpcMissing(str(error)) from error
    return GrpcServer


def _require_key(store: Store, file: Path | None, on_first_key: Callable[[FirstKey], object]) -> None:
    """See to it that there is a key; close the store if there is none. Raises NoUsableKey and FirstKeyUnusable."""
    try:
        _find_or_make_key(store, file, on_first_key)
    except Exception:
        store.close()
        raise


def _find_or_make_key(store: Store, file: Path | None, on_first_key: Callable[[FirstKey], object]) -> None:
    if store.api_keys.any_usable():
        return
    token = Token.new() if file is None else _read_token(file)
    key = store.api_keys.create_first(token)
    if key is not None:
        on_first_key(FirstKey(key=key, text=token.text if file is None else None))
    elif not store.api_keys.any_usable():
        raise NoUsableKey


def _read_token(file: Path) -> Token:
    try:
        return Token.parse(file.read_text().strip())
    except (ApiKeyInvalid, ValueError) as error:
        raise FirstKeyUnusable(f"{file} has no API key; `tracehouse keys generate` prints one") from error
    except OSError as error:
        raise FirstKeyUnusable(f"{file} cannot be read ({error.strerror})") from error


class Server(uvicorn.Server):
    """Calls `on_ready` once it can be reached. A stop signal ends open event streams at once, and is no failure."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[str, str | None], object]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        # When it is done, uvicorn raises the signal that stopped it once more, which would kill us without a handler.
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, lambda *_: None)
        super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        prepare_routes(self._app)
        await super().startup(sockets)
        _spare_collector()
        if not self.should_exit:
            self._on_ready(address_of(self.servers[0].sockets[0]), None if self._grpc is None else self._grpc.address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        context: AppContext = self._app.state.context
        context.stopping.set()
        if self._grpc is not None:
            self._grpc.begin_stop()
        await super().shutdown(sockets)

    @property
    def _app(self) -> FastAPI:
        assert isinstance(self.config.app, FastAPI)
        return self.config.app

    @property
    def _grpc(self) -> "GrpcServer | None":
        grpc: GrpcServer | None = self._app.state.grpc
        return grpc
