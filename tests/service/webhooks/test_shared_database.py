"""Several processes send webhooks from one PostgreSQL, and write there at the same time."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
from sqlalchemy import text

from migrations.check import empty_schema
from service.storage.database import Store
from service.storage.transactions import Transactions
from tests.conftest import TENANT, wait_until
from tests.service.conftest import POSTGRES_URL
from tests.service.webhooks.conftest import Receiver
from tests.service.webhooks.test_sender import UNREACHABLE, claim_request, end_request, finish, sending, waiting

pytestmark = pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    assert POSTGRES_URL is not None
    with empty_schema(POSTGRES_URL) as url:
        store = Store.open(url, (tmp_path / "blobs").as_uri())
        yield store
        store.close()


def test_processes_that_share_a_database_send_each_message_once(store: Store, receiver: Receiver) -> None:
    receiver.delay_s = 0.2
    store.webhooks.create(TENANT, receiver.url)
    for _ in range(3):
        end_request(store)

    with sending(store), sending(store), sending(store):
        wait_until(lambda: waiting(store) == 0)

    assert len(receiver.got) == 3


@pytest.mark.parametrize("is_deleted_first", [True, False])
def test_a_request_ends_while_a_webhook_of_its_tenant_is_deleted(store: Store, *, is_deleted_first: bool) -> None:
    """Whichever of both transactions is the first, the other waits for it and succeeds."""
    webhook, _ = store.webhooks.create(TENANT, UNREACHABLE)
    claimed = claim_request(store)
    steps: list[Callable[[], object]] = [
        lambda: store.webhooks.delete(TENANT, webhook.id),
        lambda: finish(store, claimed),
    ]
    first, second = steps if is_deleted_first else reversed(steps)
    transactions = store.webhooks._transactions
    with ThreadPoolExecutor(1) as executor:
        with transactions.write() as connection, pytest.MonkeyPatch.context() as patched:
            patched.setattr(Transactions, "write", lambda _: nullcontext(connection))
            first()
            patched.undo()
            ended = executor.submit(second)
            wait_until(lambda: _waits_for_a_lock(store))
        ended.result()

    assert store.webhooks.list(TENANT) == []


def _waits_for_a_lock(store: Store) -> bool:
    asked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
    with store.webhooks._transactions.read() as connection:
        return bool(connection.scalar(text(asked)))
