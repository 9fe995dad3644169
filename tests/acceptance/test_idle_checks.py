"""CHECK_FURTHER: whether a service with nothing to do goes on with a check that its limit cut."""

from typing import Any

import httpx

from tests.acceptance.conftest import Service, StartService, ended, linear
from tests.conftest import wait_until

# Less than any step of a check takes.
CUT = {"budget_s": 1e-6}


def versions(client: httpx.Client) -> list[dict[str, Any]]:
    return list(client.get("/models/cut-short").raise_for_status().json()["versions"])


def infer(client: httpx.Client, rows: int) -> int:
    return client.post("/infer/cut-short", json={"args": [[[1.0, 2.0]] * rows]}).status_code


def test_an_idle_service_widens_a_contract_by_itself(start_service: StartService) -> None:
    service = start_service(CHECK_FURTHER="idle")
    with service.client() as client:
        first = ended(client, client.post("/trace", json=linear(model="cut-short", check=CUT)))
        wait_until(lambda: len(versions(client)) == 2)

        [later] = client.get(first["links"]["artifact"]).json()["later_checks"]
        assert client.get(f"/trace/{later['trace_request']}").json()["is_idle"] is True
        assert infer(client, 3) == 200


def test_by_default_a_contract_stays_as_its_request_left_it(service: Service) -> None:
    with service.client() as client:
        first = ended(client, client.post("/trace", json=linear(model="cut-short", check=CUT)))
        # One that comes later has ended: a service that goes on by itself would have begun before.
        ended(client, client.post("/trace", json=linear(model="came-later", force=True)))

        assert client.get(first["links"]["artifact"]).json()["later_checks"] == []
        assert len(versions(client)) == 1
        assert infer(client, 3) == 422
