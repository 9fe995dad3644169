"""Sources that are named, and the slips in such names."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.sent_sources import files_of, packed_files
from tracehouse.client.errors import NotSendable
from tracehouse.client.sources.named import send_named

PRIVATE_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files = {
        "net.py": "import parts\n", "parts.py": "", "other.py": "", "net-2.py": "", "words.txt": "",
        "env/pyvenv.cfg": "", "env/lib/thing.py": "", ".git/config": "", "__pycache__/net.pyc": "",
    }  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def names_of(named: str, **arguments: Any) -> list[str]:
    return [*files_of(send_named(named, **arguments))]


def test_a_file_brings_what_it_imports_and_a_folder_all_but_hidden_files_and_environments(here: Path) -> None:
    assert names_of("net.py:Net") == ["net.py", "parts.py"]
    assert names_of(f"{here}:net:Net") == ["net-2.py", "net.py", "other.py", "parts.py", "words.txt"]


def test_python_goes_as_text_and_what_is_no_text_in_an_archive(here: Path) -> None:
    (here / "latin.py").write_bytes("# coding: latin-1\nWORD = '\u00e9'\n".encode("latin-1"))
    (here / "long.py").write_text("#" * 2_000_000)
    submission = send_named(f"{here}:net:Net")

    assert submission.source["files"] == {"net-2.py": "", "net.py": "import parts\n", "other.py": "", "parts.py": ""}
    assert [*packed_files(submission)] == ["latin.py", "long.py", "words.txt"]
    assert send_named("net.py:Net").uploads == {}


def test_the_state_of_a_service_is_left_out_with_its_private_key(here: Path) -> None:
    for file in ("lock", "signing/private.pem", "blobs/sha256/ab"):
        (here / "state" / "demo" / file).parent.mkdir(parents=True, exist_ok=True)
        (here / "state" / "demo" / file).write_text("secret")
    [note] = send_named(f"{here}:net:Net").notes

    assert not any(file.startswith("state") for file in names_of(f"{here}:net:Net"))
    assert note.endswith(": state/demo")


def test_a_folder_in_whose_root_an_environment_was_made_is_a_project_all_the_same(here: Path) -> None:
    (here / "pyvenv.cfg").write_text("")

    assert "net.py" in names_of(f"{here}:net:Net")


def test_a_private_key_in_the_folder_is_left_out_and_that_is_noted(here: Path) -> None:
    (here / "deploy_key").write_text(PRIVATE_KEY)
    (here / "server.pem").write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN RSA PRIVATE KEY-----\n")
    (here / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    sent = names_of(f"{here}:net:Net")

    assert ("ca.pem" in sent, "deploy_key" in sent, "server.pem" in sent) == (True, False, False)
    [note] = send_named(f"{here}:net:Net").notes
    assert note.endswith("as it is a private key: deploy_key, server.pem")


@pytest.mark.parametrize(
    ("link", "target", "why"),
    [
        ("notes.txt", "../private/id_rsa", "out of the folder"),
        ("helper.py", "../private/id_rsa", "out of the folder"),
        ("helper", "../private", "out of the folder"),
        ("notes.txt", ".env", "to a hidden file"),
    ],
)
def test_a_link_sends_nothing_from_elsewhere_and_that_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, target: str, why: str
) -> None:
    """A repository of somebody else, with links to private files of whoever traces it, one of which is imported."""
    for path in ("private/id_rsa", "private/__init__.py", "project/.env"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("SECRET = 1")
    (tmp_path / "project" / "net.py").write_text("import helper\n")
    (tmp_path / "project" / "same.txt").symlink_to("net.py")
    (tmp_path / "project" / "itself").symlink_to("itself")
    (tmp_path / "project" / link).symlink_to(target)
    monkeypatch.chdir(tmp_path)

    assert names_of("project:net:Net") == ["net.py", "same.txt"]
    [note] = send_named("project:net:Net").notes
    assert note.startswith(f"left out of the source, as a link leads {why}: {link}")


def test_a_file_brings_no_link_to_what_is_no_python_file_and_that_is_noted(here: Path) -> None:
    """A repository of somebody else, with links under names of modules to private files of whoever traces it."""
    (here / ".env").write_text("SECRET = 1\n")
    (here / "net.py").write_text("import keys, parts, same\n")
    (here / "keys.py").symlink_to(".env")
    (here / "same.py").symlink_to("other.py")

    assert names_of("net.py:Net") == ["net.py", "parts.py", "same.py"]
    [note] = send_named("net.py:Net").notes
    assert note.startswith("keys was left out: it is a link to ")


def test_a_file_that_is_named_may_be_a_link(here: Path) -> None:
    """As in the cache of a hub, where each file is a link to one that is named by its digest."""
    (here / "0a1b2c").write_text("import parts\n")
    (here / "linked.py").symlink_to("0a1b2c")

    assert names_of("linked.py:Net") == ["linked.py", "parts.py"]


def test_a_file_in_another_folder_finds_its_neighbours(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")

    assert names_of(f"{here}/net.py:Net") == ["net.py", "parts.py"]


def test_what_is_installed_is_imported_by_a_file_of_its_own() -> None:
    submission = send_named("torch.nn:Linear", (2, 3))

    assert submission.source["entrypoint"] == "torch_nn_entry:Linear"
    assert submission.source["init"] == {"args": [2, 3], "kwargs": {}}
    assert submission.texts == {"torch_nn_entry.py": "from torch.nn import Linear\n"}


@pytest.mark.parametrize(
    ("named", "arguments", "said"),
    [
        ("nope.py:Net", {}, "there is no file 'nope.py'"),
        ("net.py", {}, "net.py:NAME"),
        ("net-2.py:Net", {}, "rename it to a Python name"),
        ("net", {}, "names no source: write net.py:Net"),
        ("nope.pt", {}, "there is no file 'nope.pt'"),
        ("no_such_module:Net", {}, "no module 'no_such_module' here"),
        ("__main__:Net", {}, "hand in Net itself, without quotes"),
        ("net.py:Net", {"weights": "nope.pt"}, "weights names 'nope.pt'"),
        ("net.py:Net", {"weights": "a" * 5000}, "weights names 'a{100}…', and there is no such file"),
        ("net.py:Net", {"weights": "/proc/self/mem"}, "weights names '/proc/self/mem', which cannot be read"),
        ("a" * 5000, {}, "'a{100}…' names no source: write net.py:Net"),
        (f"{'a' * 5000}.py:Net", {}, "there is no file 'a{100}…'"),
        (f"{'a' * 5000}.pt", {}, "there is no file 'a{100}…'"),
        ("net.py:Net", {"weights": {"a": 3}}, r"weights\['a'\] is a int"),
        ("net.py:Net", {"kwargs": {"a": torch.ones(1)}}, r"kwargs\['a'\] is a Tensor"),
    ],
)
def test_a_slip_is_named_before_anything_is_sent(here: Path, named: str, arguments: Any, said: str) -> None:
    with pytest.raises(NotSendable, match=said):
        send_named(named, **arguments)


def test_a_source_that_cannot_be_read_is_named(here: Path) -> None:
    (here / "net.pt").symlink_to("/proc/self/mem")
    (here / "net.py").unlink()
    (here / "net.py").symlink_to("/proc/self/mem")

    with pytest.raises(NotSendable, match=r"'net.pt' cannot be read .*: name a file that you may read"):
        send_named("net.pt")
    with pytest.raises(NotSendable, match=r"'net.py' cannot be read .*: name a file that you may read"):
        send_named("net.py:Net")


def test_an_archive_takes_nothing_beside_it(here: Path) -> None:
    (here / "net.pt").write_bytes(b"")

    assert send_named("net.pt").source == {"archive": "model.pt"}
    with pytest.raises(NotSendable, match="is a model already"):
        send_named("net.pt", (1,))


def test_an_included_folder_goes_without_private_keys_hidden_files_and_what_links_outside_of_it_lead_to(
    here: Path,
) -> None:
    (here / ".env").write_text("secret")
    (here / "data").mkdir()
    for name, text in {"words.txt": "a b", ".cache": "secret", "deploy_key": PRIVATE_KEY}.items():
        (here / "data" / name).write_text(text)
    (here / "data" / "env.txt").symlink_to("../.env")
    (here / "data" / "same.txt").symlink_to("words.txt")
    submission = send_named("net.py:Net", include=["data"])

    assert packed_files(submission) == {"data/same.txt": b"a b", "data/words.txt": b"a b"}
    assert sorted(submission.notes) == [
        "left out of the source, as a link leads out of the folder: data/env.txt",
        "left out of the source, as it is a private key: data/deploy_key",
    ]


def test_a_pipe_is_not_waited_for(here: Path) -> None:
    os.mkfifo(here / "pipe")

    with pytest.raises(NotSendable, match="'pipe', which is neither a file nor a folder"):
        send_named("net.py:Net", include=["pipe"])


def test_an_included_file_goes_under_its_own_name_unless_it_is_a_private_key(here: Path) -> None:
    (here / "deploy_key").write_text(PRIVATE_KEY)
    (here / "0a1b2c").write_text("a b")
    (here / "vocabulary.txt").symlink_to("0a1b2c")
    submission = send_named("net.py:Net", include=["vocabulary.txt", "deploy_key", here / "words.txt"])

    assert packed_files(submission) == {"vocabulary.txt": b"a b", "words.txt": b""}
    assert submission.notes == ["left out of the source, as it is a private key: deploy_key"]


@pytest.mark.parametrize("given", [".", "../{here}", "data/.."])
def test_the_working_folder_may_be_included(here: Path, given: str) -> None:
    (here / "data").mkdir()

    assert [*packed_files(send_named("net.py:Net", include=[given.format(here=here.name)]))] == ["words.txt"]
