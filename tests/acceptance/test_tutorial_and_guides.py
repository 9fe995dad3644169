"""What the tutorial and the how-to guides tell a reader to type prints what they show.

A page is followed from top to bottom: a block with a title is saved as the file of that name, a console block is typed
into a shell, and a block of Python is a cell of one notebook, whose output the text block after it shows.
"""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import nbformat
import pytest
from nbclient import NotebookClient

from tests.acceptance.conftest import ANSWER_S, TRACEHOUSE, Service
from tests.sessions import assert_as_shown, parse, without_cuts

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "http://127.0.0.1:8000"
FENCE = re.compile(r'^( *)```(\w+)(?: title="([^"]+)")?\n(.*?)^\1```$', re.MULTILINE | re.DOTALL)
TYPED = {"console", "python", "sh", "bash"}

FOLLOWED = sorted(
    page.relative_to(DOCS).as_posix()
    for folder in ("tutorial", "how-to")
    for page in (DOCS / folder).glob("*.md")
    if page.name not in ("containers.md", "kubernetes.md")
)
# Pages with commands that are not typed here, and what runs them or the like.
ELSEWHERE = {
    "bitwise.md": "tests/acceptance/test_bitwise.py",
    "check.md": "tests/acceptance/test_check.py",
    "client.md": "tests/acceptance/test_client_page.py",
    "environments.md": "tests/service/cli/test_environments.py",
    "first-start.md": "tests/containers/test_compose.py",
    "grpc.md": "tests/acceptance/test_grpc.py",
    "how-to/containers.md": "tests/containers/test_compose_workers.py",
    "how-to/kubernetes.md": "tests/test_kubernetes.py",
    "index.md": "tests/acceptance/test_readme.py",
    "inference.md": "tests/acceptance/test_inference_page.py",
    "keys.md": "tests/acceptance/test_readme.py",
    "live-check.md": "tests/acceptance/test_live_check.py",
    "operations.md": "tests/acceptance/test_metrics.py",
    "retention.md": "tests/service/cli/test_gc.py",
    "served-forms.md": "tests/acceptance/test_served_forms.py",
    "serving-options.md": "tests/acceptance/test_serving_options.py",
    "signatures.md": "tests/acceptance/test_readme.py",
    "storage.md": "tests/acceptance/test_object_store.py",
    "torch-features.md": "tests/acceptance/test_torch_features.py",
    "webhooks.md": "tests/acceptance/test_webhooks.py",
    "workers.md": "tests/acceptance/test_workers.py",
}

OLD_NET = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x)
"""
SAVE_OLD_NET = """
import torch
from net import Net

torch.save(Net().state_dict(), "net.pth")
torch.jit.trace(Net().eval(), torch.ones(2, 4)).save("old.pt")
"""


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    text: str


def blocks_of(page: str) -> list[Block]:
    text = (DOCS / page).read_text()
    return [Block(found[2], found[3] or "", dedent(found[4])) for found in FENCE.finditer(text)]


class Reader:
    """A person who follows a page, in a directory of their own and with a shell and a notebook."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self._address = address
        path = f"{TRACEHOUSE.parent}:{os.environ['PATH']}"
        self._environment = os.environ | {"PATH": path, "TRACEHOUSE_URL": address, "COLUMNS": "110", "TERM": "dumb"}
        self._notebook = NotebookClient(
            nbformat.v4.new_notebook(),
            timeout=ANSWER_S,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )

    def follow(self, blocks: list[Block]) -> None:
        with self._notebook.setup_kernel(env=self._environment):
            following = [*blocks[1:], Block("", "", "")]
            for block, after in zip(blocks, following, strict=True):
                if block.title:
                    self._save(block)
                elif block.language == "console":
                    self._type(block.text)
                elif block.language == "python":
                    self._run(block.text, after.text if after.language == "text" else "")

    def _save(self, block: Block) -> None:
        place = self._folder / block.title
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(block.text)

    def _type(self, session: str) -> None:
        for command, shown in parse(session):
            ran = subprocess.run(
                ["bash", "-c", command.replace(ADDRESS, self._address)],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert_as_shown(without_cuts(ran.stdout), shown)

    def _run(self, code: str, shown: str) -> None:
        cells = self._notebook.nb.cells
        cells.append(nbformat.v4.new_code_cell(code))
        self._notebook.execute_cell(cells[-1], len(cells) - 1)
        printed = "".join(one["text"] for one in cells[-1].outputs if one.get("name") == "stdout")
        assert_as_shown(re.sub(r", but the check is incomplete: .*?(?=, model)", "", printed), shown)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all pages, which show the first version of each model."""
    running = Service(tmp_path_factory.mktemp("service") / "state")
    yield running
    running.close()


@pytest.fixture
def files_of_the_reader(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory, with what the reader of the page has before they begin."""
    if request.node.callspec.params["page"] == "how-to/from-torchserve.md":
        (tmp_path / "net.py").write_text(OLD_NET)
        subprocess.run([sys.executable, "-c", SAVE_OLD_NET], cwd=tmp_path, check=True)
        with zipfile.ZipFile(tmp_path / "net.mar", "w") as archive:
            archive.write(tmp_path / "net.py", "net.py")
            archive.write(tmp_path / "net.pth", "net.pth")
            archive.writestr("MAR-INF/MANIFEST.json", "{}")
    return tmp_path


@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_can_be_followed(page: str, files_of_the_reader: Path, service: Service) -> None:
    blocks = blocks_of(page)
    assert any(block.language in TYPED for block in blocks)
    Reader(files_of_the_reader, service.address).follow(blocks)


def test_every_page_with_commands_is_run_somewhere() -> None:
    pages = (page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
    with_commands = {page for page in pages if any(one.language in TYPED for one in blocks_of(page))}
    assert with_commands == {*FOLLOWED, *ELSEWHERE}
    assert all((DOCS.parent / test).is_file() for test in ELSEWHERE.values())
