"""Triton's perf_analyzer, as it comes from PyPI, measures a model over HTTP and over gRPC."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import ANSWER_S, Service, ended, linear

pytestmark = pytest.mark.skipif(
    shutil.which("perf_analyzer") is None,
    reason="perf_analyzer is not there: .ci/perf_analyzer makes it, for it runs on no Debian before 13 by itself",
)

REQUESTS = 40
# Not --request-count: perf_analyzer drops what is answered before it begins to count, then waits for as many again.
WINDOWS = ["--measurement-mode", "count_windows", "--measurement-request-count", str(REQUESTS)]
ANY_TIMES_ARE_STABLE = ["--stability-percentage", "999"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("perf") / "state", GRPC_PORT="0")
    with running.client() as client:
        assert ended(client, client.post("/trace", json=linear()))["state"] == "succeeded"
    yield running
    running.close()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("options", [["--concurrency-range", "3"], ["--concurrency-range", "2", "-a"]], ids=str)
def test_it_measures_a_model(service: Service, tmp_path: Path, protocol: str, options: list[str]) -> None:
    address = service.grpc_address if protocol == "grpc" else service.address.removeprefix("http://")
    command = ["perf_analyzer", "-m", "linear", "-i", protocol, "-u", address, "--shape", "x:4,2"]

    done = subprocess.run(
        [*command, *WINDOWS, *ANY_TIMES_ARE_STABLE, *options],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=ANSWER_S,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    counted = re.search(r"  Client: \n    Request count: (\d+)", done.stdout)
    assert counted, done.stdout
    assert int(counted[1]) >= REQUESTS
    assert "compute infer" in done.stdout, "it has read no statistics of the service"
