"""One tenant asks for more than can be done at once; the other one asks for one thing."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from socket import MSG_PEEK, socket

import pytest

from service.storage.artifacts import keep as keep_artifact
from service.storage.database import Store
from tests.adversary.conftest import StartTenants, Tenants, replied
from tests.conftest import keep, make_artifact, wait_until
from tracehouse.artifact.manifest import GraphNode, Printout
from tracehouse.artifact.printouts import write

pytestmark = pytest.mark.slow

PICTURE, READ = "graph.svg?open=m", "graph?format=json"
# Many times what the service does at once, of which nothing is refused.
ASKED = {PICTURE: 60, READ: 200}
WAITING = {"TENANT_REQUESTS_WAITING_MAX": "200"}


def large_graph() -> Printout:
    """As slow to draw as a graph can be."""
    steps = random.Random(0)
    nodes = [
        GraphNode(
            operator="aten::add",
            inputs=[f"v{place}", *(f"v{max(0, place - steps.randint(1, 20))}" for _ in range(2))],
            outputs=[f"v{place + 1}"],
            types=["Tensor"],
            scope=f"m.a{place}",
        )
        for place in range(1400)
    ]
    return Printout(kind="inlined_graph", method="forward", submodule="", text="", inputs=["v0"], nodes=nodes)


def start(start_tenants: StartTenants, **settings: str) -> tuple[Tenants, str]:
    """Start a service in which both tenants have an artifact with such a graph; return the artifact's path too."""
    digests: list[str] = []

    def prepare(store: Store) -> None:
        artifact = make_artifact(printouts=keep(store.blobs, write([large_graph()])))
        with store.artifacts._transactions.write() as connection:
            for tenant in ("attacker", "victim"):
                keep_artifact(connection, tenant, artifact)
        digests.append(artifact.digest)

    tenants = start_tenants(prepare, **settings)
    return tenants, f"/artifacts/{digests[0]}"


@contextmanager
def flood(tenants: Tenants, path: str, view: str) -> Iterator[list[socket]]:
    """The attacker asks for this many times at once, and reads nothing."""
    with ExitStack() as opened:
        send = partial(tenants.attacker.send, "GET", f"{path}/{view}")
        asked = [opened.enter_context(send()) for _ in range(ASKED[view])]
        wait_until(lambda: bool(replied(asked)))
        yield asked


def test_a_request_does_not_wait_for_all_of_another_tenant(start_tenants: StartTenants) -> None:
    """Where who comes first is served first, all that the other tenant asked for comes before."""
    tenants, path = start(start_tenants, **WAITING, REQUEST_THREADS="2")
    with tenants.victim.http as client:
        for asked, views in ((READ, (READ, "printouts")), (PICTURE, (PICTURE, "report"))):
            with flood(tenants, path, asked) as flooding:
                statuses = [client.get(f"{path}/{view}").status_code for view in views]
                before = len(replied(flooding))

            assert statuses == [200, 200]
            assert before < ASKED[asked], f"all that the other tenant asked for came before {views}"


def test_what_a_client_that_has_gone_asked_for_is_not_done(start_tenants: StartTenants) -> None:
    tenants, path = start(start_tenants, **WAITING)
    with flood(tenants, path, PICTURE):
        pass
    drawn = f"{path}/graph.svg"
    wait_until(lambda: len(tenants.attacker.logged(drawn)) == ASKED[PICTURE])

    assert tenants.attacker.logged(drawn).count(200) < ASKED[PICTURE] / 2, "pictures were drawn that nobody waited for"
    assert tenants.victim.http.get(drawn).status_code == 200


def test_what_waits_is_bounded(start_tenants: StartTenants) -> None:
    tenants, path = start(start_tenants, TENANT_REQUESTS_WAITING_MAX="10")
    with flood(tenants, path, PICTURE) as asked:
        wait_until(lambda: 503 in tenants.attacker.logged(f"{path}/graph.svg"))
        assert tenants.victim.http.get(f"{path}/{PICTURE}").status_code == 200

        def heads_of_replies() -> list[bytes]:
            return [each.recv(4096, MSG_PEEK) for each in replied(asked)]

        wait_until(lambda: any(head.startswith(b"HTTP/1.1 200 ") for head in heads_of_replies()))
        heads = heads_of_replies()

    refused = [head for head in heads if head.startswith(b"HTTP/1.1 503 ")]
    assert any(head.startswith(b"HTTP/1.1 200 ") for head in heads)
    assert refused
    assert all(b'"code": "too-much-work-waits"' in head and b"retry-after: 1" in head for head in refused)
