"""The session of docs/inference.md gives what the page shows."""

from pathlib import Path

from tests.acceptance.conftest import StartService
from tests.acceptance.test_readme import Shell
from tests.sessions import blocks_of, parse

PAGE = (Path(__file__).parents[2] / "docs" / "inference.md").read_text()
SESSION = [step for block in blocks_of(PAGE, "console") for step in parse(block)]


def test_the_session_gives_what_the_page_shows(start_service: StartService) -> None:
    service = start_service()
    shell = Shell(service.state)
    shell.address = service.address

    assert len(SESSION) > 15
    for command, shown in SESSION:
        shell.assert_prints(command, shown)
