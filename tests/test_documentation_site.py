"""`make docs`: the site is built without a link that leads nowhere, and its reference is in step with the code."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from service.cli import app
from tracehouse.errors import by_slug
from tracehouse.findings.kinds import CATALOGUE

ROOT = Path(__file__).parents[1]
OPENAPI = ROOT / "tests" / "service" / "api" / "openapi.json"
# What a browser loads by itself when it opens a page.
LOADED = re.compile(r'<(?:script|img|iframe)[^>]*?\ssrc="?([^"\s>]+)|<link[^>]*?\shref="?([^"\s>]+)')


def build(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of these documents as `make docs` does."""
    settings = (ROOT / "mkdocs.yml").read_text()
    settings = settings.replace("docs_dir: docs", f"docs_dir: {docs}").replace(
        "site_dir: build/docs", f"site_dir: {site}"
    )
    settings = settings.replace("hooks: [docs", f"hooks: [{ROOT}/docs")
    config = docs.parent / "mkdocs.yml"
    config.write_text(settings)
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--config-file", config],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def copy_documents(folder: Path) -> Path:
    """Copy docs/ into the folder, where what the pages link to is beside it."""
    for place in ROOT.iterdir():
        if place.name != "docs" and not place.name.startswith("."):
            (folder / place.name).symlink_to(place)
    (folder / "mkdocs.yml").unlink()
    return Path(shutil.copytree(ROOT / "docs", folder / "docs"))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The documents, to change them."""
    return copy_documents(tmp_path)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as it is built from this tree."""
    site = tmp_path_factory.mktemp("site")
    built = build(copy_documents(tmp_path_factory.mktemp("copy")), site)
    assert built.returncode == 0, built.stderr
    return site


def text_of(site: Path, page: str) -> str:
    """The text of a page as a reader sees it."""
    return html.unescape(re.sub(r"<[^>]+>", "", (site / page).read_text()))


def shown(text: str) -> str:
    """The text of a help or a title on a page, where what stands in backticks is code."""
    return text.replace("`", "")


def test_every_page_of_docs_is_on_the_site(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert len(pages) > 25
    assert {page for page in pages if not (site / page).is_file()} == set()
    assert not (site / "site").exists(), "what builds the site is no part of it"


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = ["".join(address) for address in LOADED.findall(page.read_text())]
        assert loaded
        assert [one for one in loaded if re.match(r"(https?:)?//", one)] == [], page.name


def test_links_that_lead_nowhere_and_pages_that_no_part_names_fail_the_build(copied: Path, tmp_path: Path) -> None:
    with (copied / "queue.md").open("a") as page:
        page.write("\n[nowhere](no-such-page.md) [no such heading](client.md#no-such-heading)\n")
    (copied / "forgotten.md").write_text("# Forgotten\n")
    built = build(copied, tmp_path / "site")
    assert built.returncode != 0
    for named in ("no-such-page.md", "no-such-heading", "forgotten.md"):
        assert named in built.stderr


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[no such file](../no-such-file.py)", "leads nowhere"),
        ("<!-- made from the code: nothing -->", "nothing makes 'nothing'"),
    ],
)
def test_what_the_repository_lacks_fails_the_build(copied: Path, tmp_path: Path, written: str, said: str) -> None:
    with (copied / "queue.md").open("a") as page:
        page.write(f"\n{written}\n")
    built = build(copied, tmp_path / "site")
    assert built.returncode != 0
    assert said in built.stderr


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for one in getattr(command, "commands", {}).values():
        yield from commands(one, f"{name} {one.name}")


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    page = text_of(site, "reference/command.html")
    found = dict(commands(typer.main.get_command(app), "tracehouse"))
    assert len(found) > 20
    for name, command in found.items():
        section = page.partition(f"\n{shown(command.help.splitlines()[0])}")[2] if command.help else page
        assert section, name
        for option in (one for parameter in command.params for one in parameter.opts if one.startswith("--")):
            assert option in section, f"{name} {option}"


def test_every_route_is_in_the_reference(site: Path) -> None:
    page = text_of(site, "reference/api.html")
    for path, methods in json.loads(OPENAPI.read_text())["paths"].items():
        for method, route in methods.items():
            assert f"{method.upper()} {path}" in page
            assert route["summary"] in page


def test_every_finding_and_problem_is_in_the_reference(site: Path) -> None:
    findings, problems = text_of(site, "reference/findings.html"), text_of(site, "reference/problems.html")
    assert [
        kind for kind, entry in CATALOGUE.items() if kind not in findings or shown(entry.title) not in findings
    ] == []
    assert [
        code for code, error in by_slug().items() if code not in problems or shown(error.title()) not in problems
    ] == []


def test_every_member_of_a_contract_is_in_the_reference(site: Path) -> None:
    page = text_of(site, "reference/contract.html")
    schemas = json.loads(OPENAPI.read_text())["components"]["schemas"]
    for name in ("Contract", "MethodContract", "InputSpec", "OutputSpec", "Region", "Span", "Batch", "Memory"):
        assert [member for member in schemas[name]["properties"] if f"\n{member}\n" not in page] == [], name


def test_a_link_to_a_file_that_the_site_lacks_becomes_its_text(site: Path) -> None:
    assert "expected.json" in text_of(site, "torch-features.html")
    assert "../tests/" not in (site / "torch-features.html").read_text()


def test_the_glossary_is_in_order() -> None:
    rows = [
        line.split(" | ")[0].removeprefix("| ") for line in (ROOT / "docs" / "glossary.md").read_text().splitlines()[6:]
    ]
    assert len(rows) > 30
    assert rows == sorted(rows, key=str.lower)
