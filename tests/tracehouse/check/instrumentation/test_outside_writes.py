"""Outside writes: what each call changes outside of the model is noted on its line, and what carries nothing is not."""

import builtins
import ctypes
import decimal
import inspect
import json
import logging
import math
import mmap
import os
import pathlib
import pickle
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from logging.handlers import RotatingFileHandler
from typing import Any

import numpy as np
import pytest
import torch

import tracehouse
from tracehouse.check.caller_process import restore_process, user_modules
from tracehouse.check.instrumentation.outside_writes import OutsideWatcher, OutsideWrite
from tracehouse.eager.memory_files import TEMPORARY, MemoryFiles

SENDER, RECEIVER = socket.socketpair()
READ_END, WRITE_END = os.pipe()
OPEN = tempfile.TemporaryFile()  # noqa: SIM115 - no call closes it
LOG = logging.getLogger("of the test")


@pytest.fixture(autouse=True)
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESTED", "0")
    before, prec, limit = sys.getrecursionlimit(), decimal.getcontext().prec, list(sys.path)
    size, on_error, printing, handler = np.getbufsize(), np.geterrcall(), np.get_printoptions(), signal.SIG_DFL
    os.umask(mask := os.umask(0))
    with restore_process():
        yield
    sys.setrecursionlimit(before)
    decimal.getcontext().prec = prec
    sys.path[:] = limit
    np.setbufsize(size)
    np.seterrcall(on_error)
    np.set_printoptions(**printing)
    signal.signal(signal.SIGUSR1, handler)
    os.umask(mask)
    sys.modules.pop("counted", None)
    LOG.setLevel(logging.NOTSET)


def watch(call: Callable[[], object], before: int = 2) -> list[OutsideWrite]:
    """Return what is noted of the call after the ones before it."""
    with user_modules(call):
        for _ in range(before):
            call()
        with OutsideWatcher(imported=True) as watcher:
            call()
    return [*watcher.found]


def in_the_environment() -> None:
    os.environ["TESTED"] = str(int(os.environ["TESTED"]) + 1)


def in_bytes_of_the_environment() -> None:
    os.environb[b"TESTED"] = str(int(os.environb[b"TESTED"]) + 1).encode()


def in_a_file() -> None:
    path = pathlib.Path("count")
    path.write_text(str(int(path.read_text()) + 1 if path.exists() else 0))


def in_the_length_of_a_file() -> None:
    with open("count", "a") as file:
        file.write(".")
    os.path.getsize("count")


def in_the_place_of_a_file() -> None:
    with open("count", "a") as file:
        file.write(".")
        file.tell()


def in_whether_a_file_is_there() -> None:
    path = pathlib.Path("odd")
    if path.exists():
        path.unlink()
    else:
        path.touch()


def in_a_file_by_its_descriptor() -> None:
    descriptor = os.open("count", os.O_RDWR | os.O_CREAT)
    length = len(os.read(descriptor, 100))
    os.write(descriptor, b"." * (1 + length))
    os.close(descriptor)


def in_the_names_of_folders() -> None:
    os.mkdir(str(len(os.listdir("."))))


def in_a_name() -> None:
    names = [name for name in os.listdir(".") if name.isdigit()] or ["0"]
    pathlib.Path(names[0]).touch()
    os.rename(names[0], str(int(names[0]) + 1))


def in_a_file_that_stays_open() -> None:
    OPEN.seek(0)
    OPEN.read()
    OPEN.write(b".")


def in_a_pickle() -> None:
    count = pickle.loads(pathlib.Path("count").read_bytes()) if os.path.exists("count") else 0
    with open("count", "wb") as file:
        pickle.dump(count + 1, file)


def in_a_saved_tensor() -> None:
    count = torch.load("count.pt") if os.path.exists("count.pt") else torch.zeros(1)
    torch.save(count + 1, "count.pt")


def in_a_database() -> None:
    with sqlite3.connect("counts") as database:
        database.execute("create table if not exists counts (call)")
        database.execute("insert into counts values (1)")


def in_a_mapped_file() -> None:
    with open("count", "ab+") as file:
        file.write(bytes(16) if not os.path.getsize("count") else b"")
    with open("count", "rb+") as file, mmap.mmap(file.fileno(), 16) as memory:
        memory[0] += 1


def in_a_pipe() -> None:
    os.write(WRITE_END, b".")
    os.read(READ_END, 1)


def in_a_socket() -> None:
    SENDER.send(b".")
    RECEIVER.recv(100, socket.MSG_PEEK)


def in_another_process() -> None:
    subprocess.run(["true"], check=False)


def in_the_environment_of_c() -> None:
    ctypes.CDLL(None).setenv(b"TESTED", b"1", 1)


def in_another_module() -> None:
    math.tested = getattr(math, "tested", 0) + 1  # type: ignore[attr-defined]


def in_builtins() -> None:
    builtins.tested = getattr(builtins, "tested", 0) + 1  # type: ignore[attr-defined]


def in_the_recursion_limit() -> None:
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)


def in_the_level_of_a_logger() -> None:
    LOG.setLevel(LOG.level + 1)


def in_the_number_of_threads() -> None:
    torch.set_num_threads(torch.get_num_threads() % 3 + 1)


def in_the_warning_filters() -> None:
    warnings.filterwarnings("ignore", message=str(len(warnings.filters)))


def in_the_precision_of_decimals() -> None:
    decimal.getcontext().prec += 1


def in_the_time_of_a_file() -> None:
    path = pathlib.Path("dated")
    if not path.exists():
        path.touch()
    next_s = int(os.path.getmtime(path)) + 1
    os.utime(path, (next_s, next_s))


def in_the_mode_of_a_file() -> None:
    path = pathlib.Path("moded")
    if not path.exists():
        path.touch()
    os.chmod(path, path.stat().st_mode ^ stat.S_IXUSR)


def in_the_mask_of_new_files() -> None:
    os.umask(os.umask(0) ^ 1)


def in_the_size_of_buffers() -> None:
    np.setbufsize(np.getbufsize() + 16)


def in_a_function_for_errors() -> None:
    np.seterrcall(lambda *_: None)


def in_the_handler_of_a_signal() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: None)


def in_how_numpy_prints() -> None:
    np.set_printoptions(precision=np.get_printoptions()["precision"] + 1)


def in_an_object_among_modules() -> None:
    kept: Any = sys.modules.setdefault("counted", types.SimpleNamespace(calls=0))  # type: ignore[arg-type]
    kept.calls += 1


def in_the_module_path() -> None:
    sys.path.append("nowhere")


@pytest.mark.parametrize(
    "count",
    [
        in_the_environment, in_bytes_of_the_environment, in_a_file, in_the_length_of_a_file, in_the_place_of_a_file,
        in_whether_a_file_is_there, in_a_file_by_its_descriptor, in_the_names_of_folders, in_a_name,
        in_a_file_that_stays_open, in_a_pickle, in_a_saved_tensor, in_a_database, in_a_mapped_file, in_a_pipe,
        in_a_socket, in_another_process, in_the_environment_of_c, in_another_module, in_builtins,
        in_the_recursion_limit, in_the_level_of_a_logger, in_the_number_of_threads, in_the_warning_filters,
        in_the_precision_of_decimals, in_the_module_path, in_the_time_of_a_file, in_the_mode_of_a_file,
        in_the_mask_of_new_files, in_the_size_of_buffers, in_a_function_for_errors, in_the_handler_of_a_signal,
        in_how_numpy_prints, in_an_object_among_modules,
    ],
    ids=lambda count: count.__name__,
)  # fmt: skip
def test_a_count_outside_of_the_model_is_noted_on_its_line(count: Callable[[], None]) -> None:
    found = watch(count)

    lines, first = inspect.getsourcelines(count)
    assert found
    assert {one.line.line - first in range(1, len(lines)) for one in found if one.line} == {True}


def logs_to_a_file() -> None:
    with open("log.csv", "a") as file:
        file.write("a line\n")


def adds_rows_beneath_a_head() -> None:
    path = pathlib.Path("rows.csv")
    is_new = not path.exists() or not os.path.isfile(path)
    with open(path, "a") as rows:
        rows.write("rows\n" if is_new else "1\n")


def marks_that_it_ran() -> None:
    path = pathlib.Path("ran")
    path.touch()
    path.read_text()


def logs_by_logging() -> None:
    LOG.warning("a line")


def keeps_its_last_answer() -> None:
    torch.save(torch.rand(3), "last.pt")


def makes_a_folder_for_it() -> None:
    os.makedirs("dumps/of/it", exist_ok=True)
    np.save("dumps/of/it/last.npy", np.random.rand(3))


def reads_its_configuration() -> None:
    if not os.path.exists("configuration.json"):
        pathlib.Path("configuration.json").write_text('{"scale": 2}')
    with open("configuration.json") as file:
        json.load(file)


def writes_what_is_there_already() -> None:
    pathlib.Path("table").write_text(pathlib.Path("table").read_text() if os.path.exists("table") else "a")


def works_in_a_temporary_file() -> None:
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("3")
        file.seek(0)
        file.read()


def works_in_a_temporary_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "scratch"
        path.write_text("3")
        path.read_text()


def prints_what_it_sees() -> None:
    print("a line")
    sys.stderr.write("a line\n")
    sys.stdout.flush()


def sets_what_is_set_already() -> None:
    os.environ["TESTED"] = "true"
    os.environ.setdefault("TESTED_TOO", "1")
    torch.set_float32_matmul_precision("highest")


def puts_back_what_it_changes() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_num_threads(threads)
    with warnings.catch_warnings(), decimal.localcontext() as context:
        warnings.simplefilter("ignore")
        context.prec = 3


def warns() -> None:
    warnings.warn("a line", stacklevel=2)


def sends_a_metric() -> None:
    SENDER.send(b"calls:1|c")


def imports_what_it_needs() -> None:
    import colorsys  # noqa: F401


@pytest.mark.parametrize(
    "call",
    [
        logs_to_a_file, adds_rows_beneath_a_head, marks_that_it_ran, logs_by_logging, keeps_its_last_answer,
        makes_a_folder_for_it, reads_its_configuration, writes_what_is_there_already, works_in_a_temporary_file,
        works_in_a_temporary_folder, prints_what_it_sees, sets_what_is_set_already, puts_back_what_it_changes, warns,
        sends_a_metric, imports_what_it_needs,
    ],
    ids=lambda call: call.__name__,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_carries_nothing_to_a_later_call_is_not_noted(call: Callable[[], None]) -> None:
    assert watch(call) == []


def test_a_log_that_begins_a_new_file_is_not_read_by_the_model(tmp_path: pathlib.Path) -> None:
    handler = RotatingFileHandler(tmp_path / "log", maxBytes=200, backupCount=1)
    LOG.addHandler(handler)
    try:
        assert watch(logs_by_logging) == []
    finally:
        LOG.removeHandler(handler)
        handler.close()


def test_files_in_memory_are_watched_too() -> None:
    files = MemoryFiles({})
    files.install()
    try:
        os.chdir(TEMPORARY)
        (found,) = watch(in_a_file)
    finally:
        files.uninstall()

    assert found.what == "the file 'count'"


def test_all_is_as_before_afterwards() -> None:
    before = builtins.open, os.open, os.stat, os.read, torch.save, sqlite3.connect, sys.getprofile(), ctypes.CDLL
    watch(in_a_file)
    watch(in_the_environment_of_c)

    now = builtins.open, os.open, os.stat, os.read, torch.save, sqlite3.connect, sys.getprofile(), ctypes.CDLL
    assert now == before
    assert "__call__" not in vars(type(ctypes.CDLL(None).getenv))


class CountsInAFile(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        path = pathlib.Path("count")
        count = int(path.read_text()) if path.exists() else 0
        path.write_text(str(count + 1))
        return x * (2.0 if count > 1_000_000 else 1.0)


class CountsAmongModules(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: Any = sys.modules.setdefault("counted", types.SimpleNamespace(calls=0))  # type: ignore[arg-type]
        kept.calls += 1
        return x * 2.0


class LogsToAFile(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with open("log", "a") as file:
            file.write(f"{tuple(x.shape)}\n")
        return x * 2.0


def test_a_model_that_counts_in_a_file_is_rejected_on_the_line_that_writes() -> None:
    report = tracehouse.check(CountsInAFile(), (torch.randn(2, 3),))

    # A call with another count has left that in the file, so that the answers after it show the state as well.
    (finding,) = [one for one in report.check.findings if one.kind == "hidden-state" and "state" in one.evidence]
    assert report.verdict == "rejected"
    assert finding.source == "path.write_text(str(count + 1))"
    assert finding.evidence["state"] == ["the file 'count'"]


def test_a_model_that_counts_among_the_modules_is_rejected_where_its_code_names_them() -> None:
    report = tracehouse.check(CountsAmongModules(), (torch.randn(2, 3),))

    (finding,) = [one for one in report.check.findings if one.kind == "hidden-state"]
    assert report.verdict == "rejected"
    assert finding.evidence["state"] == ["an object in sys.modules"]


def test_a_model_that_only_writes_a_log_is_verified() -> None:
    assert tracehouse.check(LogsToAFile(), (torch.randn(2, 3),)).verdict == "verified"
