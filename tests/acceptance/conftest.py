"""A real service in a process of its own, driven over HTTP."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service as Driver

TRACEHOUSE = Path(sys.executable).with_name("tracehouse")
# Ten times what each takes on an idle machine, and more: no outcome is to hang on how busy it is.
READY_S = 300
ANSWER_S = 300
ENDED_S = 1200
BROWSER_OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,3000",
]

# The files that take longest: run side by side, they begin before all others, so that none is left alone at the end.
LONGEST_FIRST = [
    "test_studio.py",
    "test_workers.py",
    "test_many_traces.py",
    "test_readme.py",
    "test_torch_features.py",
    "test_check.py",
    "test_command.py",
    "test_corpus.py",
    "test_kill.py",
    "test_tutorial_and_guides.py",
    "test_client.py",
    "test_bad_submissions.py",
    "test_telemetry.py",
    "test_inference_processes.py",
    "test_grpc.py",
    "test_shutdown.py",
    "test_schema.py",
]

# What a shell runs in the background ignores Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LINEAR = (Path(__file__).parents[2] / "examples" / "net.py").read_text()


def linear(**changes: Any) -> dict[str, Any]:
    """A submission that is traced and verified."""
    return {
        "model": "linear",
        "source": {"files": {"net.py": LINEAR}, "entrypoint": "net:Net"},
        "example_inputs": [{"datatype": "FP32", "shape": [1, 2], "random": {"seed": 0}}],
    } | changes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


def start_process(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    log_file: Path,
    ready: str,
    program: Path = TRACEHOUSE,
) -> tuple[subprocess.Popen[str], str]:
    """Start `tracehouse`, and return the process and the line in which it says that it is ready."""
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [program, *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    watchdog = threading.Timer(READY_S, process.kill)
    watchdog.start()
    assert process.stdout is not None
    line = process.stdout.readline()
    watchdog.cancel()
    assert ready in line, log_file.read_text()[-3000:]
    return process, line


class Service:
    """`tracehouse serve` on a state directory; it can be killed and started again."""

    def __init__(
        self,
        state: Path,
        *,
        host: str = "127.0.0.1",
        options: Sequence[str] = (),
        program: Path = TRACEHOUSE,
        **environment: str,
    ) -> None:
        self.state = state
        self._program = program
        self._options = ["--host", host, "--port", "0", "--state", state, *options]
        self.log = state / "service.log"
        # Measuring threads, or replicas, beside what a test does would take the processors from it.
        self._environment = os.environ | {"RUNNER_THREADS": "2", "RUNNER_REPLICAS": "1"} | environment
        self.address = ""
        self.grpc_address = ""
        self.start()

    def start(self) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        command = ["serve", *self._options]
        self.process, line = start_process(command, self._environment, self.log, "ready at ", self._program)
        self.address = line.split("ready at ")[1].split()[0]
        self.grpc_address = line.partition("gRPC: ")[2].split(";")[0]

    def client(self) -> httpx.Client:
        # Over plain HTTP: the certificates of all authorities, which take a tenth of a second to load, are not needed.
        return httpx.Client(base_url=self.address, timeout=ANSWER_S, verify=False)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(ANSWER_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.terminate()
        if self.process.stdout is not None:
            self.process.stdout.close()


StartService = Callable[..., Service]


def get(url: str) -> httpx.Response:
    """The answer, however long a busy machine takes for it."""
    return httpx.get(url, timeout=ANSWER_S, verify=False)


@pytest.fixture
def start_service(tmp_path: Path) -> Iterator[StartService]:
    """Start a service with settings of its own; it is stopped after the test."""
    with ExitStack() as running:

        def start(**environment: str) -> Service:
            service = Service(tmp_path / "state", **environment)
            running.callback(service.close)
            return service

        yield start


@pytest.fixture(scope="session")
def plain_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service, with nothing set, for all tests that leave it to the others as a service that works."""
    running = Service(tmp_path_factory.mktemp("service") / "state")
    yield running
    running.close()


@pytest.fixture(scope="session")
def service(plain_service: Service) -> Service:
    """That of most tests; a file may have another one."""
    return plain_service


@pytest.fixture(scope="session")
def service_with_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One that asks everybody for a key, for all tests with tenants of their own that leave it as it was."""
    running = Service(tmp_path_factory.mktemp("with-keys") / "state", API_KEYS="required")
    yield running
    running.close()


def create_key(service: Service, *options: str) -> str:
    """Make a key beside the service, as an operator does."""
    command = [TRACEHOUSE, "keys", "create", "somebody", *options, "--state", service.state]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as opened:
        yield opened


def version_when(client: httpx.Client, model: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """What the model's page says of its first version, once that holds. Nothing announces it."""
    until = time.monotonic() + ANSWER_S
    while not holds(version := client.get(f"/models/{model}").json()["versions"][0]):
        assert time.monotonic() < until, version
        time.sleep(0.1)
    found: dict[str, Any] = version
    return found


def ended(client: httpx.Client, submitted: httpx.Response) -> dict[str, Any]:
    """The trace request as it ended, by its event stream."""
    assert submitted.status_code in (200, 202), submitted.text
    request = submitted.json()
    until = time.monotonic() + ENDED_S
    with client.stream("GET", request["links"]["events"]) as events:
        for line in events.iter_lines():  # with heartbeats, also where nothing happens any more
            assert time.monotonic() < until, f"it has not ended, and the last that was said is {line!r}"
    answer: dict[str, Any] = client.get(request["links"]["self"]).raise_for_status().json()
    assert answer["state"] in ("succeeded", "failed", "cancelled"), answer
    return answer


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """One for all tests, because it takes seconds to start. It reaches nothing but this machine."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium with its driver is installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in (*BROWSER_OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('chromium') / 'profile'}"):
        options.add_argument(option)
    opened = webdriver.Chrome(options=options, service=Driver(driver))
    yield opened
    opened.quit()


@pytest.fixture
def browser(_chromium: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """A tab that knows nothing of the tests before: nothing is stored, cached, logged or set for the screen."""
    [kept] = _chromium.window_handles
    _chromium.switch_to.new_window("tab")
    _chromium.get_log("browser")
    yield _chromium
    everything = {"origin": "*", "storageTypes": "all"}
    _chromium.execute_cdp_cmd("Storage.clearDataForOrigin", everything)
    _chromium.execute_cdp_cmd("Network.clearBrowserCache", {})
    _chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    _chromium.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "default"})
    for opened in _chromium.window_handles:
        if opened != kept:
            _chromium.switch_to.window(opened)
            _chromium.close()
    _chromium.switch_to.window(kept)
