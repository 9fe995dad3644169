import os
import subprocess
import sys
from functools import partial
from uuid import uuid4

import pytest
from sqlalchemy import make_url, text

from migrations.check import empty_schema
from service.domain.errors import StorageUnavailable
from service.storage.database import Store
from service.storage.transactions import Transactions, connect, is_lost
from tests.conftest import TENANT


def test_what_was_stored_is_there_when_it_is_opened_again(empty_database_url, blob_url, new_request):
    first = Store.open(empty_database_url, blob_url)
    request = first.trace_requests.add(new_request())
    first.close()

    again = Store.open(empty_database_url, blob_url)

    again.ping()
    assert again.trace_requests.get(TENANT, request.id) == request
    again.close()


@pytest.mark.slow
def test_processes_that_open_a_new_store_at_once_all_have_it(empty_database_url, blob_url):
    program = [sys.executable, "-c", OPENS_WHEN_TOLD, empty_database_url, blob_url]
    opening = [
        subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in opening:
        assert process.stdout.readline() == b"ready\n"

    for process in opening:
        process.stdin.write(b"now\n")
        process.stdin.flush()

    ends = [(process.communicate()[1][-500:], process.returncode) for process in opening]
    assert ends == [(b"", 0)] * 2


OPENS_WHEN_TOLD = """
import sys
from service.storage.database import Store

print("ready", flush=True)
sys.stdin.readline()
store = Store.open(*sys.argv[1:])
store.ping()
store.close()
"""


def test_a_database_that_does_not_answer_is_unavailable(blob_url):
    with pytest.raises(StorageUnavailable) as raised:
        Store.open("postgresql://nobody@127.0.0.1:1/nothing", blob_url)

    assert is_lost(raised.value)


def test_a_full_disk_is_no_lost_connection(tmp_path):
    """What a worker cannot store counts as a fault of its attempt, or it would try again for ever."""
    program = [sys.executable, "-c", COMMITS_WHAT_THE_DISK_DOES_NOT_TAKE, f"sqlite:///{tmp_path / 'state.sqlite'}"]
    told = subprocess.run(program, capture_output=True, text=True, check=False)

    assert told.stderr == ""
    assert told.stdout == "None False\n"


COMMITS_WHAT_THE_DISK_DOES_NOT_TAKE = """
import resource
import sys

from service.domain.errors import StorageUnavailable
from service.storage.transactions import Transactions, connect, is_lost

transactions = Transactions(connect(sys.argv[1]))
with transactions.write() as connection:
    connection.exec_driver_sql("CREATE TABLE pieces (piece BLOB)")
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
try:
    with transactions.write() as connection:
        connection.exec_driver_sql("INSERT INTO pieces VALUES (zeroblob(100000))")
except StorageUnavailable as error:
    print(error.__cause__.statement, is_lost(error))
"""


def test_a_database_that_a_newer_release_has_changed_is_refused(store, database_url, blob_url):
    administrator = Transactions(connect(database_url))
    with administrator.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        connection.execute(text("UPDATE oldest_release SET revision = '9998'"))
    administrator.close()

    for use in (partial(Store.open, database_url, blob_url), store.ping):
        with pytest.raises(StorageUnavailable) as raised:
            use()
        assert (raised.value.facts["oldest_revision"], "update this process" in raised.value.detail) == ("9998", True)


@pytest.mark.skipif("TEST_POSTGRES_URL" not in os.environ, reason="no TEST_POSTGRES_URL: storage is tested on SQLite")
def test_a_lost_connection_to_postgresql_is_replaced(blob_url, new_request):
    with empty_schema(os.environ["TEST_POSTGRES_URL"]) as url:
        store = Store.open(f"{url}&application_name=doomed", blob_url)
        request = store.trace_requests.add(new_request())

        administrator = Transactions(connect(url))
        with administrator.write() as connection:
            cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'doomed'"
            assert connection.scalar(text(cut)) == 1
        administrator.close()

        assert store.trace_requests.get(TENANT, request.id) == request
        store.close()


@pytest.mark.skipif("TEST_POSTGRES_URL" not in os.environ, reason="no TEST_POSTGRES_URL: storage is tested on SQLite")
def test_a_postgresql_without_an_encoding_keeps_all_characters(blob_url, new_request):
    """As initdb makes it where there is no locale, which is so in many containers."""
    url, name = make_url(os.environ["TEST_POSTGRES_URL"]), f"ascii_{uuid4().hex}"
    source = {"files": {"net.py": "# Größe, 猫\nclass Net: ..."}, "entrypoint": "net:Net"}
    administrator = connect(os.environ["TEST_POSTGRES_URL"]).execution_options(isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"))
        store = Store.open(url.set(database=name).render_as_string(hide_password=False), blob_url)

        request = store.trace_requests.add(new_request(source=source))

        assert store.trace_requests.get(TENANT, request.id).spec.source.files == source["files"]
        store.close()
        connection.execute(text(f"DROP DATABASE {name}"))
    administrator.dispose()
