"""Files in memory: data beside the modules of a source, a home and temporary files, and nothing else of the machine."""

import builtins
import glob
import importlib.resources
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tracehouse.check.instrumentation.ambient_reads import AmbientRecorder
from tracehouse.eager.memory_files import HOME, TEMPORARY, MemoryFiles
from tracehouse.eager.source import Source
from tracehouse.errors import SourceRaised
from tracehouse.introspection.paths import SOURCE_FOLDER

Install = Callable[[Source], Source]


def array() -> bytes:
    saved = io.BytesIO()
    np.save(saved, np.arange(3.0))
    return saved.getvalue()


def weights() -> bytes:
    saved = io.BytesIO()
    torch.save({"scale": torch.tensor(2.0)}, saved)
    return saved.getvalue()


FILES = {
    "pkg/__init__.py": b"",
    "pkg/net.py": b"HERE = __file__\n",
    "pkg/config.json": b'{"width": 4}',
    "pkg/data/vocabulary.txt": b"one\ntwo\n",
    "pkg/data/mean.npy": array(),
    "pkg/data/net.pt": weights(),
    "labels.txt": b"cat\r\ndog\r\n",
}


def content(path: object, **options: Any) -> Any:
    """What the function `open` gives."""
    with open(path, **options) as file:  # type: ignore[call-overload]
        return file.read()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[MemoryFiles]:
    """Installed after pytest has made its own temporary folder."""
    files = MemoryFiles(FILES)
    files.install()
    yield files
    files.uninstall()


@pytest.mark.usefixtures("files")
def test_data_of_the_source_are_opened_as_if_they_lay_on_a_disk() -> None:
    beside = Path(SOURCE_FOLDER, "pkg", "net.py").parent

    assert json.loads(content(beside / "config.json")) == {"width": 4}
    assert json.loads((beside / "config.json").read_text()) == {"width": 4}
    assert Path("labels.txt").read_text().split() == ["cat", "dog"]
    assert content("labels.txt", newline="")[:5] == "cat\r\n"
    assert content(f"{beside}/../pkg/data/vocabulary.txt").split() == ["one", "two"]
    assert np.load(beside / "data" / "mean.npy").tolist() == [0.0, 1.0, 2.0]
    assert torch.load(beside / "data" / "net.pt")["scale"] == 2
    assert os.path.getsize(beside / "config.json") == len(FILES["pkg/config.json"])


@pytest.mark.usefixtures("files")
def test_folders_of_the_source_are_listed() -> None:
    assert os.getcwd() == SOURCE_FOLDER
    assert sorted(os.listdir("pkg")) == ["__init__.py", "config.json", "data", "net.py"]
    assert sorted(path.name for path in Path("pkg").rglob("*.*")) == sorted(
        Path(path).name for path in FILES if path.startswith("pkg/")
    )
    assert glob.glob("pkg/**/*.txt", recursive=True) == ["pkg/data/vocabulary.txt"]
    assert [folder for folder, _, _ in os.walk("pkg")] == ["pkg", "pkg/data"]
    assert Path("pkg/net.py").resolve().parents[1] == Path(SOURCE_FOLDER)
    assert not os.path.exists("pkg/none.txt")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("folder", [Path(SOURCE_FOLDER).parent, SOURCE_FOLDER, "pkg"])
def test_a_folder_is_no_file(folder: Path | str) -> None:
    with pytest.raises(IsADirectoryError):
        content(folder)


@pytest.mark.usefixtures("files")
def test_a_source_changes_its_working_folder() -> None:
    os.chdir("pkg")

    assert content("config.json") == '{"width": 4}'
    with pytest.raises(FileNotFoundError):
        os.chdir("none")


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text("changed"),
        lambda path: path.unlink(),
        lambda path: path.rename("pkg/other.json"),
        lambda path: path.with_name("new.txt").write_text("new"),
        lambda path: path.with_name("new").mkdir(),
        lambda path: os.truncate(path, 0),
        lambda path: shutil.rmtree(path.parent),
    ],
)
@pytest.mark.usefixtures("files")
def test_the_source_cannot_be_changed(change: Callable[[Path], object]) -> None:
    with pytest.raises(OSError, match="Read-only file system"):
        change(Path("pkg/config.json"))

    assert sorted(os.listdir("pkg")) == ["__init__.py", "config.json", "data", "net.py"]
    assert content("pkg/config.json") == '{"width": 4}'
    assert not os.access("pkg/config.json", os.W_OK)


@pytest.mark.usefixtures("files")
def test_the_home_is_empty_and_takes_settings_and_caches() -> None:
    assert Path.home() == Path(HOME)
    assert os.listdir(Path.home()) == []

    cache = Path.home() / ".cache" / "package"
    cache.mkdir(parents=True)
    assert os.access(cache, os.W_OK)
    with open(cache / "settings.json", "w") as file:
        json.dump({"seen": 1}, file)
    with open(cache / "settings.json", "a+") as file:
        file.write("\n")
        file.seek(0)
        assert json.loads(file.read()) == {"seen": 1}
    with pytest.raises(FileExistsError):
        content(cache / "settings.json", mode="x")
    (cache / "settings.json.new").write_bytes(b"{}")
    os.replace(cache / "settings.json.new", cache / "settings.json")
    assert [(entry.name, entry.stat().st_size) for entry in os.scandir(cache)] == [("settings.json", 2)]
    with pytest.raises(OSError, match="not empty"):
        os.rmdir(cache)
    shutil.rmtree(Path.home() / ".cache")
    assert os.listdir(Path.home()) == []


@pytest.mark.usefixtures("files")
def test_temporary_files_are_made_and_removed() -> None:
    with tempfile.NamedTemporaryFile("w+") as named:
        named.write("kept")
        named.flush()
        assert Path(named.name).parent == Path(TEMPORARY)
        assert content(named.name) == "kept"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "file").write_text("kept")
    with tempfile.TemporaryFile() as unnamed:
        unnamed.write(b"kept")
        unnamed.seek(0)
        assert unnamed.read() == b"kept"
    assert os.listdir(TEMPORARY) == []

    descriptor, path = tempfile.mkstemp()
    assert os.write(descriptor, b"kept") == 4
    assert os.lseek(descriptor, 0, os.SEEK_SET) == 0
    assert os.read(descriptor, 10) == b"kept"
    assert os.fstat(descriptor).st_size == 4
    os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.read(descriptor, 10)
    assert Path(path).read_bytes() == b"kept"


def test_files_of_the_machine_are_the_kernels_to_give(files: MemoryFiles, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("there")

    assert there.read_text() == "there"
    assert os.listdir(tmp_path) == ["there"]
    assert files.path_of(there) is None
    with pytest.raises(OSError, match="cross-device"):
        os.rename("pkg/config.json", tmp_path / "config.json")
    with pytest.raises(FileNotFoundError):
        content(tmp_path / "none")


def test_nothing_is_left_when_they_are_uninstalled() -> None:
    before = {name: value for name, value in vars(os).items() if name != "environ"}
    opened, home = builtins.open, os.environ.get("HOME")
    files = MemoryFiles(FILES)
    files.install()
    Path.home().joinpath("file").write_text("kept")
    files.uninstall()

    assert {name: value for name, value in vars(os).items() if name != "environ"} == before
    assert builtins.open is io.open is opened
    assert os.environ.get("HOME") == home
    assert not os.path.exists(f"{HOME}/file")
    assert not os.path.exists(SOURCE_FOLDER)


def test_two_homes_are_apart() -> None:
    first, second = MemoryFiles({}), MemoryFiles({})
    first.install()
    Path.home().joinpath("file").write_text("the first's")
    second.install()
    seen = os.listdir(Path.home())
    second.uninstall()
    first.uninstall()

    assert seen == []


def test_a_package_finds_its_resources(installed: Install) -> None:
    source = installed(Source(FILES))
    net = source.import_module("pkg.net", 0)

    assert f"{SOURCE_FOLDER}/pkg/net.py" == net.HERE
    assert importlib.resources.files("pkg").joinpath("config.json").read_text() == '{"width": 4}'
    assert importlib.resources.files("pkg.data").joinpath("vocabulary.txt").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("opens", ["open('none.json')", "open(pathlib.Path(__file__).parent / 'none.json')"])
def test_a_file_that_the_source_lacks_is_not_laid_to_the_sandbox(installed: Install, opens: str) -> None:
    with pytest.raises(SourceRaised) as raised:
        installed(Source({"net.py": f"import pathlib\n{opens}\n".encode()})).import_module("net", 0)

    assert raised.value.detail.endswith("No such file or directory: 'none.json'")
    assert "remedy" not in raised.value.facts


@pytest.mark.parametrize(
    ("reads", "function"),
    [
        ("open('data.txt').read()", "open"),
        ("__import__('pathlib').Path('data.txt').read_text()", "open"),
        ("__import__('os').path.getmtime('data.txt')", "os.stat"),
        ("__import__('os').listdir('.')", "os.listdir"),
    ],
)
def test_a_method_that_reads_a_file_in_memory_is_seen(installed: Install, reads: str, function: str) -> None:
    net = f"import os, pathlib\ndef forward():\n    return {reads}\n"
    source = installed(Source({"net.py": net.encode(), "data.txt": b"1"}))
    forward = source.import_module("net", 0).forward
    with AmbientRecorder() as recorder:
        forward()

    assert ("file", function, 3) in [(read.kind, read.name, read.line.line) for read in recorder.reads]
