"""Sources as a shell names them: what becomes part of the trace request, and what of a directory does not."""

import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from service.cli.example_inputs import Uploads
from service.cli.sources import NamedSource, SourceArguments, name_source
from tracehouse.client.sources.named import send_named
from tracehouse.spec.model_name import is_name
from tracehouse.spec.trace_spec import ModelSource

NET = "def net(x):\n    return x\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def name(text: str) -> NamedSource:
    named = name_source(text, Uploads())
    ModelSource.model_validate(named.source)
    return named


def write(path: Path, content: str | bytes = NET) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_directory_goes_as_its_text_files(here: Path) -> None:
    write(here / "project" / "pkg" / "__init__.py", "")
    write(here / "project" / "pkg" / "net.py")
    write(here / "project" / "pkg" / "vocabulary.txt", "naïve\n")
    named = name("project:pkg.net:net")

    assert named.source["files"] == {"pkg/__init__.py": "", "pkg/net.py": NET, "pkg/vocabulary.txt": "naïve\n"}
    assert (named.source["entrypoint"], named.model, named.left_out) == ("pkg.net:net", "net", [])
    assert named.paths["pkg/net.py"] == named.anchor == Path("project/pkg/net.py")


@pytest.mark.parametrize(
    ("entrypoint", "anchor"),
    [("pkg/net.py:net", "pkg/net.py"), ("pkg:net", "pkg/__init__.py"), ("elsewhere:net", None)],
)
def test_the_file_of_the_entrypoint_is_found(here: Path, entrypoint: str, anchor: str | None) -> None:
    write(here / "pkg" / "__init__.py")
    write(here / "pkg" / "net.py")

    assert name(f".:{entrypoint}").anchor == (anchor and Path(anchor))


@pytest.mark.parametrize(
    ("left", "content", "why"),
    [
        ("pkg/weights.bin", b"\xff\xfe\x00", "no text in UTF-8"),
        ("pkg/words.txt", "x" * (2**20 + 1), "more than 1 MiB"),
        ("my-scripts/run.py", NET, "no Python name"),
        ("code.py", NET, "Python has a module of this name"),
    ],
)
def test_what_is_left_out_of_a_directory_is_said(here: Path, left: str, content: str | bytes, why: str) -> None:
    write(here / "net.py")
    write(here / left, content)
    named = name(".:net:net")

    assert [*named.source["files"]] == ["net.py"]
    [line] = named.left_out
    assert why in line
    assert line.endswith(f": {left}")


def test_a_long_list_of_what_is_left_out_is_cut(here: Path) -> None:
    write(here / "net.py")
    for number in range(7):
        write(here / f"{number}.bin", b"\xff")

    assert name(".:net:net").left_out == ["left out of the source, as it is no text in UTF-8: "
                                          "0.bin, 1.bin, 2.bin, 3.bin, 4.bin and 2 more"]  # fmt: skip


def test_a_file_goes_with_what_it_imports_from_its_directory(here: Path) -> None:
    write(here / "net.py", "import torch, json\nfrom layers import Layer\nimport parts.deep\n" + NET)
    write(here / "layers.py", "import sizes\n")
    write(here / "sizes.py", "")
    write(here / "parts" / "deep.py", "")
    write(here / "json.py", "")
    write(here / "train.py", "import net\n")
    named = name("net.py:net")

    assert sorted(named.source["files"]) == ["layers.py", "net.py", "parts/deep.py", "sizes.py"]
    assert (named.source["entrypoint"], named.left_out, named.anchor) == ("net:net", [], Path("net.py"))
    assert named.paths["layers.py"].read_text() == "import sizes\n"


def test_what_a_file_imports_by_a_link_from_elsewhere_is_left_out_and_that_is_said(here: Path) -> None:
    write(here / "private" / "layers.py", "secret")
    write(here / "project" / "net.py", "import layers, words\n" + NET)
    write(here / "project" / "words.py", b"# coding: latin-1\n\xe9 = 1\n")
    (here / "project" / "layers.py").symlink_to("../private/layers.py")
    named = name("project/net.py:net")

    assert [*named.source["files"]] == ["net.py"]
    assert sorted(line.rpartition(": ")[2] for line in named.left_out) == ["layers.py", "words.py"]


def test_a_compiled_module_that_a_file_imports_is_left_out_and_that_is_said(here: Path) -> None:
    write(here / "net.py", "import fast\n" + NET)
    write(here / "fast.abi3.so", b"\x7fELF")
    named = name("net.py:net")

    assert [*named.source["files"]] == ["net.py"]
    assert named.left_out == ["fast is compiled (fast.abi3.so) and was left out: only Python files are sent"]


def test_what_a_file_imports_from_another_directory_is_left_out_and_that_is_said(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here / "project" / "net.py", "import layers\n" + NET)
    write(here / "shared" / "layers.py")
    monkeypatch.syspath_prepend(here / "shared")
    named = name("project/net.py:net")

    assert [*named.source["files"]] == ["net.py"]
    assert named.left_out == ["left out of the source, as it is in another directory than net.py: layers.py"]


def test_what_a_file_in_another_encoding_imports_is_left_out_and_that_is_said(here: Path) -> None:
    write(here / "net.py", f"# coding: latin-1\nimport layers\n{NET}# \u00e9\n".encode("latin-1"))
    write(here / "layers.py")
    uploads = Uploads()
    named = name_source("net.py:net", uploads)

    assert (named.source["file"], named.paths) == ("net.py", {"net.py": Path("net.py")})
    assert named.left_out == ["left out of the source, as net.py is no text in UTF-8, and goes alone: layers.py"]


def test_a_text_has_the_line_ends_of_python(here: Path) -> None:
    write(here / "net.py", b"import layers\r\n\r\nnet = layers\r\n")
    write(here / "layers.py", b"a = 1\rb = 2\r\n")

    assert name("net.py:net").source["files"] == {
        "net.py": "import layers\n\nnet = layers\n",
        "layers.py": "a = 1\nb = 2\n",
    }


@pytest.mark.parametrize("passed_over", [".git/config", "__pycache__/net.pyc", "venv/lib/net.py", "node_modules/a.js"])
def test_what_is_no_part_of_a_project_is_passed_over(here: Path, passed_over: str) -> None:
    write(here / "net.py")
    write(here / "venv" / "pyvenv.cfg")
    write(here / passed_over)
    named = name(".:net:net")

    assert ([*named.source["files"]], named.left_out) == (["net.py"], [])


def test_the_state_of_a_service_is_left_out_with_its_private_key(here: Path) -> None:
    write(here / "net.py")
    for file in ("lock", "signing/private.pem", "blobs/sha256/ab/cd"):
        write(here / "state" / "demo" / file, "secret")
    named = name(".:net:net")

    assert [*named.source["files"]] == ["net.py"]
    assert [line.rpartition(": ")[2] for line in named.left_out] == ["state/demo"]


def test_a_private_key_is_left_out_and_that_is_said(here: Path) -> None:
    write(here / "net.py", "KEY = '''\n-----BEGIN PRIVATE KEY-----'''\n")  # a module is imported, whatever it has
    write(here / "deploy_key", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n")
    named = name(".:net:net")

    assert [*named.source["files"]] == ["net.py"]
    assert named.left_out == ["left out of the source, as it is a private key: deploy_key"]


@pytest.mark.parametrize(
    ("link", "target", "why"),
    [
        ("notes.txt", "../private/id_rsa", "out of the folder"),
        ("helper.py", "../private/id_rsa", "out of the folder"),
        ("pkg", "../private", "out of the folder"),
        ("first.txt", "second.txt", "out of the folder"),
        ("notes.txt", ".env", "to a hidden file"),
    ],
)
def test_a_link_sends_nothing_from_elsewhere_and_that_is_said(here: Path, link: str, target: str, why: str) -> None:
    """A repository of somebody else, with links to private files of whoever traces it."""
    write(here / "private" / "id_rsa", "secret")
    write(here / "project" / "net.py")
    write(here / "project" / ".env", "secret")
    (here / "project" / "second.txt").symlink_to("../private/id_rsa")
    (here / "project" / link).symlink_to(target)
    named = name("project:net:net")

    assert named.source["files"] == {"net.py": NET}
    [line] = [line for line in named.left_out if why in line]
    assert link in line.partition(": ")[2].split(", ")


def test_a_link_within_a_directory_is_a_file_like_others(here: Path) -> None:
    write(here / "project" / "net.py")
    (here / "project" / "same.py").symlink_to("net.py")
    (here / "linked").symlink_to("project")

    assert [*name("linked:net:net").source["files"]] == ["net.py", "same.py"]
    assert name("linked:net:net").left_out == []


def test_a_circle_of_links_ends(here: Path) -> None:
    write(here / "net.py")
    (here / "again").symlink_to(here)
    (here / "itself").symlink_to("itself")

    assert [*name(".:net:net").source["files"]] == ["net.py"]


def test_a_directory_of_too_many_files_is_refused(here: Path) -> None:
    for number in range(1001):
        write(here / f"net{number}.py", "")

    with pytest.raises(typer.BadParameter, match=r"1001 files.*name the folder"):
        name(".:net0:net")


def test_what_an_installed_package_has_is_imported_by_a_source_of_one_line() -> None:
    named = name("timm.models:create_model")

    [text] = named.source["files"].values()
    assert text == "from timm.models import create_model\n"
    assert (named.source["entrypoint"], named.model, named.anchor) == ("entrypoint:create_model", "timm", None)


def test_a_name_inside_of_a_name_is_reached() -> None:
    named = name("pkg:Net.make")

    assert [*named.source["files"].values()] == ["from pkg import Net\n"]
    assert named.source["entrypoint"] == "entrypoint:Net.make"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nope.py:net", "there is no file nope.py"),
        ("net.py", "net.py:NAME"),
        ("net:net", "neither a .py nor a .zip"),
        ("net.txt:net", "neither a .py nor a .zip"),
        ("pkg", "pkg:NAME"),
        ("pkg:a b", "no name in pkg"),
        ("nowhere:net:net", "there is no directory nowhere"),
        (".", ". pkg.net:NAME"),
        (".:net", ". pkg.net:net"),
        ("shop:Net", ". shop:Net"),
        ("my-net.py:net", "rename it"),
        ("__main__:net", "this command itself"),
    ],
)
def test_a_slip_is_named(here: Path, text: str, why: str) -> None:
    write(here / "net.py")
    write(here / "my-net.py")
    write(here / "net.txt")
    write(here / "shop" / "__init__.py")

    with pytest.raises(typer.BadParameter, match=why.replace(".", r"\.")):
        name(text)


@pytest.fixture
def private(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of somebody else, also if the tests run as root, who may read all."""
    file = write(here / "private.py")
    io_open = io.open

    def refuse(path: object, *arguments: Any) -> Any:
        if isinstance(path, Path) and path.name == file.name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return io_open(path, *arguments)  # type: ignore[call-overload]

    monkeypatch.setattr("io.open", refuse)
    return file


@pytest.fixture
def nobody(here: Path) -> Iterator[None]:
    """Run as somebody who may not enter every directory, also if the tests run as root."""
    here.chmod(0o755)
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("text", ["locked/net.py:net", "locked/project:net:net", "locked/net.pt", "locked:Net"])
def test_what_is_in_a_directory_that_may_not_be_entered_is_named(
    here: Path, request: pytest.FixtureRequest, text: str
) -> None:
    write(here / "locked" / "net.py")
    (here / "locked").chmod(0)
    request.getfixturevalue("nobody")

    with pytest.raises(typer.BadParameter, match=r"^locked\S* cannot be read \(Permission denied\)$"):
        name(text)


def test_a_name_that_no_file_can_have_is_named(here: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"cannot be read \(File name too long\)"):
        name(f"{'n' * 300}.py:net")


def test_a_file_that_may_not_be_read_is_named(private: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"private\.py cannot be read \(Permission denied\)"):
        name("private.py:net")


def test_what_a_file_imports_and_may_not_be_read_is_left_out_and_that_is_said(here: Path, private: Path) -> None:
    write(here / "net.py", "import private\n" + NET)
    named = name("net.py:net")

    assert [*named.source["files"]] == ["net.py"]
    assert named.left_out == [f"private was left out: {private} cannot be read (Permission denied)"]


def test_the_entrypoint_may_be_an_argument_of_its_own() -> None:
    assert SourceArguments("project", "pkg.net:Net").text == "project:pkg.net:Net"
    assert SourceArguments("net.py:Net").text == "net.py:Net"


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("net.py:net", "net"),
        ("_net_.py:net", "net"),
        ("project:pkg.net:net", "net"),
        ("source.zip:pkg.net:net", "source"),
        ("My net.pt", "My-net"),
        ("torch.nn:Linear", "torch"),
    ],
)
def test_the_model_of_a_source_is_called_the_same_by_the_command_and_the_client(
    here: Path, text: str, called: str
) -> None:
    for file in ("net.py", "_net_.py", "project/pkg/net.py", "source.zip", "My net.pt"):
        write(here / file)

    assert is_name(called)
    assert [name(text).model, send_named(text).name] == [called, called]
