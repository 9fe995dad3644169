"""`tracehouse keys`, and the keys of the commands that talk to a service."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import Result
from typer.testing import CliRunner

from service.cli import app
from service.domain.api_key import ApiKey, Scope, Token
from service.domain.errors import ApiKeyInvalid
from service.settings import Settings
from service.storage.database import Store

Keys = Callable[..., Result]


@pytest.fixture
def keys(store: Store, tmp_path: Path) -> Keys:
    return lambda *arguments: CliRunner().invoke(app, ["keys", *arguments, "--state", str(tmp_path)])


@pytest.fixture
def create(keys: Keys, store: Store) -> Callable[..., ApiKey]:
    """Make a key with the command; it is what a service lets in."""

    def create(*arguments: str) -> ApiKey:
        made = keys("create", *arguments)
        assert made.exit_code == 0, made.stderr
        return store.api_keys.authenticate(made.stdout.strip())

    return create


def test_a_key_opens_a_service_that_runs(create) -> None:
    key = create("me")

    assert (key.name, key.tenant, key.scopes) == ("me", "default", {Scope.TRACE, Scope.READ, Scope.INFER})
    assert (key.expires_at, key.requests_per_minute, key.upload_max_bytes) == (None, None, None)


def test_a_key_is_as_it_was_asked_for(create) -> None:
    now = datetime.now(UTC)

    key = create(
        "the CI", "--tenant", "acme", "--scope", "trace", "--scope", "read", "--expires", "90d",
        "--requests-per-minute", "7", "--upload-max-bytes", "1000",
    )  # fmt: skip

    assert (key.tenant, key.scopes) == ("acme", {Scope.TRACE, Scope.READ})
    assert timedelta(days=90) <= key.expires_at - now < timedelta(days=90, hours=1)
    assert (key.requests_per_minute, key.upload_max_bytes) == (7, 1000)


def test_a_generated_key_is_one_that_no_service_knows(keys: Keys, store: Store) -> None:
    first, second = (CliRunner().invoke(app, ["keys", "generate"]).stdout for _ in range(2))

    assert first != second
    assert Token.parse(first.strip()).text == first.strip()
    assert store.api_keys.list() == []


def test_a_generated_key_is_printed_for_programs() -> None:
    token = json.loads(CliRunner().invoke(app, ["keys", "generate", "--json"]).stdout)["key"]

    assert Token.parse(token).text == token


def test_standard_output_is_the_key_alone(keys: Keys) -> None:
    made = keys("create", "me")

    assert len(made.stdout.split()) == 1
    assert "only time" in made.stderr
    assert made.stdout.strip() not in made.stderr


def test_a_key_can_be_made_before_the_first_start(tmp_path: Path) -> None:
    state = tmp_path / "new" / "state"
    made = CliRunner().invoke(app, ["keys", "create", "me"], env={"STATE_DIR": str(state)})

    settings = Settings(state_dir=state)
    store = Store.open(settings.database, settings.blobs)
    assert store.api_keys.authenticate(made.stdout.strip()).name == "me"
    store.close()


def test_keys_are_listed_one_a_line_and_without_their_secrets(keys: Keys, store: Store) -> None:
    token = keys("create", "first key", "--scope", "read").stdout.strip()
    store.api_keys.authenticate(token)
    keys("revoke", token[:11])
    limits = ("--requests-per-minute", "7", "--upload-max-bytes", "1000")
    keys("create", "other", "--tenant", "acme", "--expires", "8w", *limits)

    listed = keys("list").stdout

    _, first, second = ([cell.strip() for cell in re.split("  +", line)] for line in listed.splitlines())
    one, other = store.api_keys.list()
    assert first == [
        one.prefix,
        "first key",
        "default",
        "read",
        "-",
        "-",
        time(one.created_at),
        "-",
        time(one.last_used_at),
        time(one.revoked_at),
    ]
    assert second == [
        other.prefix,
        "other",
        "acme",
        "trace,read,infer",
        "7",
        "1000",
        time(other.created_at),
        time(other.expires_at),
        "-",
        "-",
    ]
    assert token[12:] not in listed


def test_where_there_are_no_keys_the_list_says_so(keys: Keys) -> None:
    listed = keys("list")

    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "tracehouse keys create" in listed.stderr


def test_a_revoked_key_opens_nothing_more(keys: Keys, store: Store) -> None:
    token = keys("create", "me").stdout.strip()

    revoked = keys("revoke", token[:11])

    assert (revoked.exit_code, revoked.stdout) == (0, f"Key {token[:11]}, for me, is revoked.\n")
    with pytest.raises(ApiKeyInvalid):
        store.api_keys.authenticate(token)
    assert keys("revoke", token[:11]).exit_code == 0


def test_a_whole_key_can_be_revoked_too(keys: Keys, store: Store) -> None:
    token = keys("create", "me").stdout.strip()

    revoked = keys("revoke", token)

    assert (revoked.exit_code, revoked.stdout) == (0, f"Key {token[:11]}, for me, is revoked.\n")
    with pytest.raises(ApiKeyInvalid):
        store.api_keys.authenticate(token)


@pytest.mark.parametrize("arguments", [["list"], ["revoke", "th_ab12cd34"]], ids=lambda it: it[0])
def test_a_keys_command_without_state_fails_and_makes_none(tmp_path: Path, arguments: list[str]) -> None:
    state = tmp_path / "elsewhere"

    ended = CliRunner().invoke(app, ["keys", *arguments, "--state", str(state)])

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == f"There is no Tracehouse state in {state}; say where it is with --state.\n"
    assert not state.exists()


def test_who_makes_a_key_is_told_for_which_service(tmp_path: Path) -> None:
    state = tmp_path / "elsewhere"

    made = CliRunner().invoke(app, ["keys", "create", "me", "--state", str(state)])

    assert f"the service whose state is in {state}." in made.stderr


def test_keys_of_another_database_leave_the_state_directory_alone(tmp_path: Path) -> None:
    state, database = tmp_path / "state", tmp_path / "database" / "rows.db"
    environment = {"STATE_DIR": str(state), "DATABASE_URL": f"sqlite:///{database}"}

    made = CliRunner().invoke(app, ["keys", "create", "me"], env=environment)

    assert str(database.parent) in made.stderr
    assert "me" in CliRunner().invoke(app, ["keys", "list"], env=environment).stdout
    assert not state.exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["revoke", "th_nowhere0"], "There is no API key with this prefix"),
        (["create", "me", "--tenant", "No Tenant"], "tenant: a tenant is"),
        (["create", "a\nb"], "name: a key's name is"),
        (["create", "me", "--expires", "soon"], "--expires: 'soon'"),
        (["create", "me", "--expires", "-1d"], "--expires: '-1d'"),
        (["create", "me", "--upload-max-bytes", "9" * 30], "upload_max_bytes: "),
    ],
)
def test_what_cannot_be_done_is_one_line(keys: Keys, store: Store, arguments: list[str], why: str) -> None:
    ended = keys(*arguments)

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(why)
    assert ended.stderr.count("\n") == 1
    assert store.api_keys.list() == []


def test_a_state_directory_that_cannot_be_used_is_one_line() -> None:
    ended = CliRunner().invoke(app, ["keys", "create", "me", "--state", "/proc/nowhere"])

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1


def time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M}"


NET = Path(__file__).parents[3] / "examples" / "net.py"
KEY = "th_ab12cd34_" + "x" * 43
PROBLEM = b'{"title": "The API key is not one of this service\'s", "code": "api-key-invalid", "detail": "no such key"}'


@pytest.fixture
def sent() -> list[str | None]:
    """What came as `Authorization`."""
    return []


@pytest.fixture
def url(sent: list[str | None]) -> Iterator[str]:
    """Of a service that knows nobody."""

    class Refuse(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(401)
            self.end_headers()
            self.wfile.write(PROBLEM)

        do_POST = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
    Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "command", [["models"], ["infer", "net", "{}"], ["trace", f"{NET}:Net", "--input", "1x2"]], ids=lambda it: it[0]
)
def test_a_command_sends_its_key_and_tells_of_a_refusal(url: str, sent: list[str | None], command: list[str]) -> None:
    asked = [*command, "--url", url]
    ended = [
        CliRunner().invoke(app, [*asked, "--key", KEY]),
        CliRunner().invoke(app, asked, env={"TRACEHOUSE_KEY": f" {KEY}\n"}),
        CliRunner().invoke(app, asked, env={"TRACEHOUSE_KEY": ""}),
    ]

    assert sent == [f"Bearer {KEY}", f"Bearer {KEY}", None]
    for each in ended:
        assert each.exit_code == 1
        assert "api-key-invalid" in each.stderr
        assert KEY not in each.output


def test_what_no_header_can_carry_is_no_key() -> None:
    ended = CliRunner().invoke(app, ["models", "--key", "schlüssel"])

    assert ended.exit_code == 2
    assert "not an API key" in ended.stderr
    assert "schlüssel" not in ended.output


def test_keys_are_printed_for_programs_and_only_a_new_one_whole(keys: Keys) -> None:
    made = json.loads(keys("create", "me", "--scope", "read", "--json").stdout)
    [listed] = json.loads(keys("list", "--json").stdout)["keys"]
    revoked = json.loads(keys("revoke", made["prefix"], "--json").stdout)

    assert made.pop("key").startswith(f"{made['prefix']}_")
    assert listed == made
    assert (made["scopes"], made["revoked_at"]) == (["read"], None)
    assert revoked["revoked_at"] is not None
