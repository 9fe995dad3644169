"""What waits is delivered: again after a failure, after a restart, and past tenants that cannot be reached."""

import socket
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

import orjson
import pytest
from sqlalchemy.exc import IntegrityError

from service.domain.outcome import NotTraced
from service.domain.trace_request import TraceRequest
from service.storage import webhook_messages, webhooks
from service.storage.database import Store
from service.webhooks.sender import Sender
from tests.conftest import TENANT, wait_until
from tests.service.webhooks.conftest import HERE, Receiver
from tracehouse.errors import Failure
from tracehouse.spec.trace_spec import TraceSpec

UNREACHABLE = "http://127.0.0.1:1/"


def end_request(store: Store, tenant: str = TENANT) -> str:
    """End a trace request with a problem, and return its id."""
    claimed = claim_request(store, tenant)
    finish(store, claimed)
    return claimed.id


def claim_request(store: Store, tenant: str = TENANT) -> TraceRequest:
    source = {"files": {"net.py": "class Net: ..."}, "entrypoint": "net:Net"}
    spec = TraceSpec.model_validate({"model": "net", "source": source, "example_inputs": [1.0], "force": True})
    added = store.trace_requests.add(TraceRequest.new(spec, {}, torch_version="2", tenant=tenant))
    claimed = store.trace_requests.claim(added.id)
    assert claimed is not None
    return claimed


def finish(store: Store, claimed: TraceRequest) -> None:
    failure = Failure(slug="model-raised", detail="boom")
    assert store.trace_requests.finish(claimed.id, claimed.attempt, NotTraced(failure=failure))


@contextmanager
def sending(store: Store, *retries_s: float) -> Iterator[Sender]:
    sender = Sender(store, HERE, every_s=0.01, retries_s=retries_s)
    sender.start()
    try:
        yield sender
    finally:
        sender.stop(30)


def waiting(store: Store, tenant: str = TENANT) -> int:
    return sum(each.waiting for each in store.webhooks.list(tenant))


def test_the_end_of_a_request_is_told_to_each_webhook_of_its_tenant(store: Store, receiver: Receiver) -> None:
    for _ in range(2):
        store.webhooks.create(TENANT, receiver.url)
    store.webhooks.create("other", UNREACHABLE)
    request_id = end_request(store)

    with sending(store):
        wait_until(lambda: waiting(store) == 0)

    told = [orjson.loads(body) for _, body in receiver.got]
    data = {"id": request_id, "state": "failed", "verdict": None, "path": f"/trace/{request_id}"}
    assert [(each["type"], each["data"]) for each in told] == [("trace.failed", data)] * 2
    assert waiting(store, "other") == 0
    assert [each.last_result for each in store.webhooks.list(TENANT)] == ["204", "204"]


def test_what_fails_is_tried_again_with_the_same_id_also_after_a_restart(store: Store, receiver: Receiver) -> None:
    receiver.replies = [500, 503, 200]
    store.webhooks.create(TENANT, receiver.url)
    end_request(store)

    with sending(store, 0, 0, 0):
        wait_until(lambda: len(receiver.got) >= 1)
    with sending(store, 0, 0, 0):
        wait_until(lambda: waiting(store) == 0)

    assert len(receiver.got) == 3
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
    assert len({body for _, body in receiver.got}) == 1


def test_what_fails_for_too_long_is_given_up(store: Store, receiver: Receiver) -> None:
    receiver.replies = [500]
    store.webhooks.create(TENANT, receiver.url)
    end_request(store)

    with sending(store, 0, 0):
        wait_until(lambda: waiting(store) == 0)

    assert len(receiver.got) == 3
    assert store.webhooks.list(TENANT)[0].last_result == "500"


def test_a_try_that_is_not_due_yet_is_not_made(store: Store, receiver: Receiver) -> None:
    receiver.replies = [500]
    store.webhooks.create(TENANT, receiver.url)
    end_request(store)
    with sending(store, 3600):
        wait_until(lambda: store.webhooks.list(TENANT)[0].last_result == "500")
        store.webhooks.create("second", receiver.url)
        end_request(store, "second")
        wait_until(lambda: len(receiver.got) == 2)

    assert waiting(store) == waiting(store, "second") == 1


def test_a_webhook_that_is_gone_is_deleted(store: Store, receiver: Receiver) -> None:
    receiver.replies = [410]
    store.webhooks.create(TENANT, receiver.url)
    end_request(store)
    end_request(store)

    with sending(store, 0):
        wait_until(lambda: store.webhooks.list(TENANT) == [])

    assert len(receiver.got) == 1
    [deleted, *_] = store.audit_log.list(TENANT, 10).items
    assert (deleted.action, deleted.via) == ("webhook.delete", "service")


def test_tenants_that_cannot_be_reached_keep_no_other_waiting(store: Store, receiver: Receiver) -> None:
    for number in range(8):
        store.webhooks.create(f"bad{number}", UNREACHABLE)
        for _ in range(5):
            end_request(store, f"bad{number}")
    store.webhooks.create(TENANT, receiver.url)
    end_request(store)

    with sending(store, *[0] * 1000):
        wait_until(lambda: waiting(store) == 0)

    assert len(receiver.got) == 1


def test_a_webhook_that_does_not_reply_rests_while_others_of_its_tenant_are_told(
    store: Store, receiver: Receiver
) -> None:
    asked: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as mute:
        threading.Thread(target=_hang_up, args=(mute, asked), daemon=True).start()
        store.webhooks.create(TENANT, f"http://127.0.0.1:{mute.getsockname()[1]}/")
        store.webhooks.create(TENANT, receiver.url)
        for _ in range(4):
            end_request(store)

        with sending(store, 3600):
            wait_until(lambda: len(receiver.got) == 4)

    assert len(asked) == 1


def _hang_up(mute: socket.socket, asked: list[object]) -> None:
    with suppress(OSError):
        while True:
            client, address = mute.accept()
            asked.append(address)
            client.close()


def test_an_error_of_the_database_does_not_tell_the_secret(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "new_secret", lambda: "whsec_SECRET")
    same = uuid4()
    monkeypatch.setattr(webhooks, "uuid4", lambda: same)
    store.webhooks.create(TENANT, UNREACHABLE)

    with pytest.raises(IntegrityError) as raised:
        store.webhooks.create(TENANT, UNREACHABLE)

    assert "whsec_SECRET" not in "".join(traceback.format_exception(raised.value))


def test_no_more_than_so_many_messages_wait_for_a_webhook(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_messages, "WAITING_MAX", 3)
    store.webhooks.create(TENANT, UNREACHABLE)
    for _ in range(5):
        end_request(store)

    assert waiting(store) == 3
