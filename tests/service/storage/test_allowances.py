import pytest

from service.domain.errors import StorageQuotaExceeded
from service.domain.quotas import NO_QUOTAS, Quotas
from tests.conftest import counted_bytes

QUOTAS = Quotas(stored_max_bytes=10_000)


def test_what_is_being_written_counts_until_it_is_closed(store):
    with store.allowances.open("ours", QUOTAS) as first, store.allowances.open("ours", QUOTAS) as second:
        first.take(6_000)

        with pytest.raises(StorageQuotaExceeded) as refused:
            second.take(4_001)
        facts = {"stored_bytes": 0, "staged_bytes": 6_000, "sent_bytes": 4_001, "limit": 10_000}
        assert refused.value.facts == facts
        second.take(4_000)
        with pytest.raises(StorageQuotaExceeded):
            first.take(1)
        second.give_back(1)
        first.take(1)
    with store.allowances.open("ours", QUOTAS) as alone:
        alone.take(10_000)


def test_another_tenants_bytes_do_not_count(store):
    with store.allowances.open("theirs", QUOTAS) as theirs, store.allowances.open("ours", QUOTAS) as ours:
        theirs.take(10_000)
        ours.take(10_000)
        assert ours.byte_size == 10_000


def test_only_what_is_lacking_is_taken(store):
    with store.allowances.open("ours", QUOTAS) as allowance:
        for byte_size in (4_000, 3_000, 10_000):
            allowance.reach(byte_size)
        assert allowance.byte_size == 10_000
        with pytest.raises(StorageQuotaExceeded):
            allowance.reach(10_001)
        assert allowance.byte_size == 10_000


def test_what_is_stored_and_what_is_being_written_count_together(store, new_request):
    store.trace_requests.add(new_request())
    stored = counted_bytes(store)
    quotas = Quotas(stored_max_bytes=2 * stored + 5_000)

    with store.allowances.open("ours", quotas) as allowance:
        with pytest.raises(StorageQuotaExceeded):
            allowance.take(stored + 5_001)
        allowance.take(stored + 5_000)

        for ask in (store.trace_requests.refuse, store.trace_requests.add):
            with pytest.raises(StorageQuotaExceeded):
                ask(new_request(), quotas=quotas)
        store.trace_requests.add(new_request(), quotas=quotas, allowance=allowance)


def test_a_staged_file_takes_what_is_written_once(store):
    with store.allowances.open("ours", QUOTAS) as allowance, store.blobs.stage(allowance) as staged:
        staged.reserve(5_000)
        assert allowance.byte_size == 5_000
        for _ in range(2):
            staged.write(bytes(2_500))
        assert allowance.byte_size == 5_000
        staged.write(bytes(5_000))
        with pytest.raises(StorageQuotaExceeded):
            staged.write(b"1")
        assert staged.byte_size == 10_000
        with pytest.raises(StorageQuotaExceeded):
            staged.reserve(1)


def test_files_that_became_new_blobs_are_counted(store):
    with store.allowances.open("ours", NO_QUOTAS) as allowance:
        for content in (b"first", b"first", b"other!"):
            with store.blobs.stage(allowance) as staged:
                staged.write(content)
                staged.commit()

        assert allowance.kept_bytes == len(b"first") + len(b"other!")


def test_of_those_that_take_at_once_no_more_get_it_than_there_is_room_for(store, at_once):
    allowances = [store.allowances.open("ours", QUOTAS) for _ in range(12)]

    results = at_once(*(lambda one=one: one.take(4_000) for one in allowances))

    assert results.count(None) <= 2
    assert store.allowances.taken_bytes("ours") == 4_000 * results.count(None)
