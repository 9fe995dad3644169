"""One tenant asks for large answers and reads none of them; the other one goes on working."""

from contextlib import ExitStack

import pytest

from tests.acceptance.conftest import ended
from tests.adversary.conftest import StartTenants, Tenant, is_cut, replied, status_of
from tests.conftest import wait_until
from tracehouse.byte_units import MIB

pytestmark = pytest.mark.slow

ASKED = 16
ANSWER_BYTES = 8 * MIB
UNREAD_MAX_BYTES = 96 * MIB
# What else the service's process may take: answers that are made, threads, caches.
BESIDE_BYTES = 64 * MIB

LARGE = f"""\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x.repeat({ANSWER_BYTES // 8}) / 3
"""
INPUT = b'{"args": [[1.5, 2.5]]}'


def trace(tenant: Tenant) -> None:
    with tenant.http as client:
        spec = {
            "model": "large",
            "source": {"files": {"net.py": LARGE}, "entrypoint": "net:Net"},
            "example_inputs": [{"datatype": "FP32", "shape": [2], "random": {"seed": 0}}],
            "check": {"probes": "off"},
        }
        assert ended(client, client.post("/trace", json=spec))["state"] == "succeeded"
        assert client.post("/infer/large", content=INPUT).status_code == 200


def test_answers_that_nobody_reads_are_bounded_and_given_back(start_tenants: StartTenants) -> None:
    tenants = start_tenants(TENANT_UNREAD_MAX_BYTES=str(UNREAD_MAX_BYTES), REQUEST_IDLE_S="3")
    for tenant in (tenants.attacker, tenants.victim):
        trace(tenant)
    before = highest = tenants.resident_bytes

    def all_replied() -> bool:
        nonlocal highest
        highest = max(highest, tenants.resident_bytes)
        return len(replied(unread)) == ASKED

    with ExitStack() as opened:
        unread = [opened.enter_context(tenants.attacker.send("POST", "/infer/large", INPUT)) for _ in range(ASKED)]
        wait_until(all_replied)
        answered = tenants.victim.http.post("/infer/large", content=INPUT)
        statuses = [status_of(each) for each in unread]
        wait_until(lambda: all(is_cut(each) for each in unread))

    assert len(answered.json()["outputs"][0]["data"]) == ANSWER_BYTES // 4
    assert {*statuses} == {200, 503}
    assert highest - before < UNREAD_MAX_BYTES + BESIDE_BYTES
    wait_until(lambda: tenants.resident_bytes - before < BESIDE_BYTES)
    assert tenants.attacker.http.post("/infer/large", content=INPUT).status_code == 200, "there is room again"
