"""A service whose files are on S3: a server process of moto's stands in, and is killed while the service runs."""

import hashlib
import shutil
from typing import Any

import httpx

from tests.acceptance.conftest import Service, StartService, ended, linear
from tests.acceptance.test_storage import WEIGHTS, parts
from tests.conftest import wait_until
from tests.metrics import Scrape
from tests.s3_server import Bucket


def problem_of(answer: httpx.Response) -> tuple[int, Any, Any]:
    return answer.status_code, answer.json().get("code"), answer.headers.get("retry-after")


def forget_files(service: Service) -> None:
    """Remove what the service keeps of S3's files on its own disk, and start it again."""
    service.kill()
    shutil.rmtree(service.state / "cache")
    service.start()


def test_a_service_works_with_files_on_s3_and_never_answers_from_damaged_ones(
    start_service: StartService, bucket: Bucket
) -> None:
    service = start_service(BLOB_URL=bucket.url)
    upload = f"sha256:{hashlib.sha256(WEIGHTS).hexdigest()}"
    with service.client() as client:
        traced = ended(client, client.post("/trace", files=parts("net")))
        digest = traced["artifacts"][0]["digest"]
        archive = client.get(f"/artifacts/{digest}").json()["archive"]
    assert bucket.blobs()[upload] == WEIGHTS
    assert len(bucket.blobs()[archive["digest"]]) == archive["byte_size"]
    assert not (service.state / "blobs").exists()

    forget_files(service)
    with service.client() as client:
        assert client.post("/infer/net", json={"args": [[1.0]]}).json()["outputs"][0]["data"] == [1.25]
        part = client.get(f"/artifacts/{digest}/archive", headers={"range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, bucket.blobs()[archive["digest"]][10:20])
        assert part.headers["etag"] == f'"{archive["digest"]}"'
        assert client.get("/readyz").json()["damaged_files"] == []

    bucket.flip(archive["digest"])
    bucket.flip(upload)
    forget_files(service)
    with service.client() as client:
        for answer in (
            client.post("/infer/net", json={"args": [[1.0]]}),
            client.get(f"/artifacts/{digest}/archive"),
        ):
            assert problem_of(answer)[:2] == (500, "content-damaged")
            assert answer.json()["digest"] == archive["digest"]
        assert client.get("/readyz").json()["damaged_files"] == [archive["digest"]]
        again = ended(client, client.post("/trace", files=parts("again", force=True)))
        assert again["verdict"] == traced["verdict"]
        assert client.post("/infer/again", json={"args": [[1.0]]}).json()["outputs"][0]["data"] == [1.25]
    assert bucket.blobs()[upload] == WEIGHTS


def test_while_s3_is_down_nothing_is_lost_and_what_needs_it_is_told_to_wait(
    start_service: StartService, bucket: Bucket
) -> None:
    service = start_service(BLOB_URL=bucket.url)
    with service.client() as client:
        traced = ended(client, client.post("/trace", files=parts("net")))
        digest = traced["artifacts"][0]["digest"]
    forget_files(service)
    with service.client() as client:
        warm = client.post("/infer/net", json={"args": [[1.0]]}).json()
        bucket.server.kill()

        wait_until(lambda: client.get("/readyz").status_code == 503)
        assert problem_of(client.get("/readyz")) == (503, "files-unavailable", "5")
        assert client.get("/livez").status_code == 200
        assert problem_of(client.post("/trace", files=parts("other", force=True))) == (503, "files-unavailable", "5")
        assert problem_of(client.get(f"/artifacts/{digest}/report")) == (503, "files-unavailable", "5")
        assert client.post("/infer/net", json={"args": [[1.0]]}).json() == warm
        scrape = Scrape.of(client.get("/metrics"))
        assert scrape.value("tracehouse_problems_total", code="files-unavailable", fault="service") > 0, "for the alert"
        waits = client.post("/trace", json=linear())
        assert waits.status_code == 202
        wait_until(lambda: "a trace request waits for the files" in service.log.read_text())
        assert client.get(waits.json()["links"]["self"]).json()["state"] == "running"

        bucket.server.start()
        wait_until(lambda: client.get("/readyz").status_code == 200)
        done = ended(client, waits)
        assert (done["state"], done["verdict"]) == ("succeeded", "verified")
        assert client.get(f"/artifacts/{digest}/report").status_code == 200
        # One that waits can be cancelled.
        bucket.server.kill()
        cancelled = client.post("/trace", json=linear(model="another", force=True)).json()
        wait_until(lambda: service.log.read_text().count("a trace request waits for the files") == 2)
        assert client.post(cancelled["links"]["cancel"]).json()["state"] == "cancelled"
    log = service.log.read_text()
    assert bucket.server.environment["AWS_SECRET_ACCESS_KEY"] not in log
