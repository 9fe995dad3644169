"""`tracehouse migrate` brings the database to this release, once, and says what it did."""

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result
from sqlalchemy import TextClause, make_url, text
from typer.testing import CliRunner

import migrations
from migrations.check import difference, empty_schema
from service.cli import app
from service.storage.transactions import Transactions, connect
from tests.conftest import wait_until
from tests.service.conftest import POSTGRES_URL

AT_ONCE = 4
TRACEHOUSE = Path(sys.executable).with_name("tracehouse")


def migrate(database_url: str, *options: str, **environment: str) -> Result:
    return CliRunner().invoke(app, ["migrate", *options], env={"DATABASE_URL": database_url, **environment})


def test_a_new_database_has_its_tables_afterwards(empty_database_url: str) -> None:
    ended = migrate(empty_database_url)

    assert (ended.exit_code, ended.stdout) == (0, f"The tables are made, at revision {migrations.HEAD}.\n")
    assert what_is_missing(empty_database_url) == ""
    assert "as this release needs them" in migrate(empty_database_url).stdout


def test_the_tables_of_an_earlier_release_are_changed(empty_database_url: str) -> None:
    migrate(empty_database_url)
    transactions = Transactions(connect(empty_database_url))
    with transactions.write() as connection:
        migrations.downgrade(connection, "0012")
    transactions.close()

    ended = migrate(empty_database_url)

    assert ended.stdout == f"The tables are at revision {migrations.HEAD} now; they were at 0012.\n"
    assert what_is_missing(empty_database_url) == ""


def test_the_revisions_are_printed_for_programs(empty_database_url: str) -> None:
    made, left = (json.loads(migrate(empty_database_url, "--json").stdout) for _ in range(2))

    assert made == {"revision": migrations.HEAD, "previous_revision": None}
    assert left == {"revision": migrations.HEAD, "previous_revision": migrations.HEAD}


@pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")
def test_of_several_that_start_at_once_one_changes_the_tables() -> None:
    assert POSTGRES_URL is not None
    with empty_schema(POSTGRES_URL) as url:
        running = [
            subprocess.Popen(
                [TRACEHOUSE, "migrate"], env=os.environ | {"DATABASE_URL": url}, stdout=subprocess.PIPE, text=True
            )
            for _ in range(AT_ONCE)
        ]
        said = Counter(one.communicate()[0] for one in running)

        assert [one.returncode for one in running] == [0] * AT_ONCE
        made = f"The tables are made, at revision {migrations.HEAD}.\n"
        needed = f"The tables are at revision {migrations.HEAD}, as this release needs them.\n"
        assert said == {made: 1, needed: AT_ONCE - 1}
        assert what_is_missing(url) == ""


@pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")
def test_others_go_on_while_the_change_waits_for_a_long_reader() -> None:
    assert POSTGRES_URL is not None
    with empty_schema(POSTGRES_URL) as url, closing(Transactions(connect(url))) as transactions:
        with transactions.write() as connection:
            migrations.upgrade(connection)
            migrations.downgrade(connection, "0020")
        read, waits = text("SELECT count(*) FROM trace_requests"), text(WAITS_FOR_A_LOCK)
        with transactions.snapshot() as reader:
            reader.execute(read)
            environment = os.environ | {"DATABASE_URL": url}
            changing = subprocess.Popen([TRACEHOUSE, "migrate"], env=environment, stdout=subprocess.PIPE, text=True)
            with closing(Transactions(connect(url))) as others:
                for _ in range(3):
                    wait_until(lambda: bool(scalar(others, waits)))
                    assert scalar(others, read) == 0

        assert "they were at 0020" in changing.communicate()[0]


def test_a_database_that_does_not_answer_is_said_without_the_password() -> None:
    ended = migrate("postgresql://nobody:pa55word@127.0.0.1:1/nothing")

    assert ended.exit_code == 2
    assert "The database was not migrated: connection failed" in ended.stderr
    assert "pa55word" not in ended.stderr


@pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")
def test_a_user_who_may_not_make_tables_is_said() -> None:
    assert POSTGRES_URL is not None
    nowhere = make_url(POSTGRES_URL).update_query_dict({"options": "-csearch_path=pg_catalog"})

    ended = migrate(nowhere.render_as_string(hide_password=False))

    assert ended.exit_code == 2
    assert "The database was not migrated: permission denied" in ended.stderr


WAITS_FOR_A_LOCK = "SELECT count(*) FROM pg_locks WHERE relation = 'trace_requests'::regclass AND NOT granted"


def scalar(transactions: Transactions, query: TextClause) -> int | None:
    with transactions.read() as connection:
        return connection.scalar(query)


def what_is_missing(database_url: str) -> str:
    transactions = Transactions(connect(database_url))
    with transactions.read() as connection:
        missing = difference(connection)
    transactions.close()
    return missing
