"""The studio's pages and their parts, without a browser: who gets what, and that no text becomes markup."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from fastapi.testclient import TestClient

from service.api.studio.figures import Figures
from service.api.studio.source_view import colour, excerpt, known_lines, whole_file
from service.domain.api_key import Scope
from service.serving.runner import RunnerState
from service.serving.statistics import VersionStatistics
from service.storage.database import Store
from tests.conftest import NewStore
from tests.service.api.conftest import assert_problem, authorized, running, spec

PAGES = ["/studio", f"/studio/trace/{'0' * 32}", f"/studio/trace/{'0' * 32}/graph", "/studio/models/linear"]
STUDIO = files("service.api.studio")
FIGURES = "models/linear/figures?version=1"
HOSTILE = "</code><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e"


class Tags(HTMLParser):
    """The tags of a page, each with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def words(page: str) -> str:
    """What a reader sees of a page."""
    return " ".join(re.sub("<[^>]*>", " ", page).split())


@pytest.fixture(scope="module")
def request_id(steady: TestClient) -> str:
    return str(steady.get("/trace").json()["trace_requests"][0]["id"])


@pytest.fixture(scope="module")
def keyed(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Store]]:
    with running(new_store, tmp_path_factory.mktemp("keyed"), keys_required=True) as service:
        yield service


def test_the_root_leads_a_browser_to_the_studio(steady: TestClient) -> None:
    answer = steady.get("/", headers={"accept": "text/html,*/*;q=0.8"}, follow_redirects=False)

    assert answer.headers["location"] == "/studio"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_runs_and_loads_only_the_files_of_the_studio(steady: TestClient, path: str) -> None:
    page = steady.get(path)

    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    loaded = [values.get("src") or values["href"] for tag, values in Tags(page.text).found if tag in ("script", "link")]
    assert len(loaded) == 3
    for address in loaded:
        assert address is not None
        assert address.startswith("/studio/static/")
        assert steady.get(address).status_code == 200


def test_no_file_of_the_studio_asks_another_host_or_has_inline_script_or_style() -> None:
    for folder in ("templates", "static"):
        for file in STUDIO.joinpath(folder).iterdir():
            text = file.read_text()
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), file.name
            if folder == "templates":
                assert not re.search(r"\sstyle=|\son\w+=|\|\s*safe|<script>|<style", text), file.name


def test_the_policy_of_trusted_types_is_used_in_one_file() -> None:
    users = [file.name for file in STUDIO.joinpath("static").iterdir() if "innerHTML" in file.read_text()]

    assert users == ["api.js"]


def test_the_parts_ask_for_a_key_that_may_read(keyed: tuple[TestClient, Store], request_id: str) -> None:
    client, store = keyed
    for path in (
        "requests",
        "models",
        f"trace/{request_id}",
        f"spec/{request_id}",
        f"graph/{request_id}",
        "models/linear",
        FIGURES,
    ):
        assert_problem(client.get(f"/studio/parts/{path}"), 401, "api-key-missing")
        refused = client.get(f"/studio/parts/{path}", headers=authorized(store, Scope.INFER))
        assert_problem(refused, 403, "scope-missing")


def test_requests_are_found_by_their_state_and_a_part_of_the_models_name(keyed: tuple[TestClient, Store]) -> None:
    client, store = keyed
    own = authorized(store, tenant="finder")
    for model in ("first_net", "second-net"):
        client.post("/trace", json=spec(model=model), headers={**own, "prefer": "wait=30"})

    def found(**query: str) -> str:
        return words(client.get("/studio/parts/requests", params=query, headers=own).text)

    assert all(model in found(state="succeeded", search="net") for model in ("first_net:1", "second-net:1"))
    assert ("first_net:1" in found(search="t_n"), "second-net" in found(search="t_n")) == (True, False)
    assert found(search="%") == found(state="failed") == "No trace request is like that."
    assert_problem(client.get("/studio/parts/requests", params={"cursor": "x"}, headers=own), 422, "invalid-cursor")


def test_the_parts_show_nothing_of_another_tenant(keyed: tuple[TestClient, Store]) -> None:
    client, store = keyed
    own, other = authorized(store, tenant="acme"), authorized(store, tenant="other")
    request = client.post("/trace", json=spec(model="secret"), headers={**own, "prefer": "wait=30"}).json()["id"]

    assert "secret" in client.get("/studio/parts/requests", headers=own).text
    assert client.get(f"/studio/parts/graph/{request}", headers=own).status_code == 200
    assert "secret" not in client.get("/studio/parts/requests", headers=other).text
    mine = client.post("/trace", json=spec(model="mine"), headers={**other, "prefer": "wait=30"}).json()["id"]
    beside = client.get(f"/studio/parts/trace/{mine}", params={"before": request}, headers=other)
    assert_problem(beside, 404, "trace-request-not-found")
    for path in (f"trace/{request}", f"spec/{request}", f"graph/{request}"):
        assert_problem(client.get(f"/studio/parts/{path}", headers=other), 404, "trace-request-not-found")
    for path in ("models/secret", "models/secret/figures?version=1"):
        assert_problem(client.get(f"/studio/parts/{path}", headers=other), 404, "model-not-found")


def test_a_request_that_failed_says_why_and_what_to_do(client: TestClient) -> None:
    request = client.post("/trace", json=spec(model="fails"), headers={"prefer": "wait=30"}).json()

    part = client.get(f"/studio/parts/trace/{request['id']}").text
    assert request["problem"]["title"] in part
    assert "What to do" in part
    assert 'href="/problems/source-syntax-error"' in part
    answer = client.get(f"/studio/parts/graph/{request['id']}")
    assert_problem(answer, 404, "printout-not-found")


def test_a_request_that_runs_can_be_cancelled_from_its_page(client: TestClient) -> None:
    request = client.post("/trace", json=spec(model="stays")).json()["id"]

    part = client.get(f"/studio/parts/trace/{request}").text
    assert f'data-path="/trace/{request}/cancel"' in part
    client.post(f"/trace/{request}/cancel")
    assert "Cancelled" in client.get(f"/studio/parts/trace/{request}").text


def test_the_graph_names_the_line_of_each_box_and_has_the_source(steady: TestClient, request_id: str) -> None:
    graph = steady.get(f"/studio/parts/graph/{request_id}").json()

    linear = next(box for box in graph["boxes"] if box["label"] == "aten::linear")
    assert linear["lines"] == [["linear.py", 10]]
    assert (linear["module"], linear["nodes"][0]["types"]) == ("layer", "Float(1, 2)")
    [file] = graph["files"]
    assert file["path"] == "linear.py"
    assert re.sub("<[^>]*>", "", file["lines"][0][1]) == "import torch"


def test_what_was_submitted_is_sent_again_as_it_was(client: TestClient) -> None:
    sent = spec(check={"probes": "off", "budget_s": 2}, force=True)
    request = client.post("/trace", json=sent, headers={"prefer": "wait=30"}).json()["id"]

    again = client.get(f"/studio/parts/spec/{request}").json()
    answer = client.post("/trace", json=again["spec"] | {"force": False})
    assert answer.json()["id"] == request
    assert (again["texts"], again["has_files"]) == (sent["source"]["files"], False)


def test_an_uploaded_file_of_python_is_edited_as_text_beside_its_weights(client: TestClient) -> None:
    source = {"file": "net.py", "entrypoint": "pack.net:Net"}
    sent = spec(source=source, weights={"file": "net.safetensors"})
    parts = [("files", ("net.py", b"import torch\n")), ("files", ("net.safetensors", b"weights"))]
    request = client.post("/trace", data={"request": json.dumps(sent)}, files=parts).json()["id"]

    again = client.get(f"/studio/parts/spec/{request}").json()

    assert (again["texts"], again["has_files"]) == ({"pack/net.py": "import torch\n"}, True)
    edited = again["spec"] | {"source": again["spec"]["source"] | {"files": {"pack/net.py": "import numpy\n"}}}
    answer = client.post("/trace", json=edited, params={"files_of": request})
    assert answer.status_code == 202, answer.text
    assert client.get(answer.json()["links"]["source"]).json()["files"] == {"pack/net.py": "import numpy\n"}


def test_a_trace_beside_itself_shows_that_nothing_changed(steady: TestClient, request_id: str) -> None:
    part = steady.get(f"/studio/parts/trace/{request_id}", params={"before": request_id}).text

    assert "What the edit changed" in part
    assert "no operator more or less" in part


def test_a_version_that_is_not_there_has_no_page(steady: TestClient) -> None:
    assert "version 1" in steady.get("/studio/parts/models/linear").text
    answer = steady.get("/studio/parts/models/linear", params={"version": 2})
    assert_problem(answer, 404, "version-not-found")


def test_two_versions_are_compared(client: TestClient) -> None:
    for force in (False, True):
        client.post("/trace", json=spec(force=force), headers={"prefer": "wait=30"})

    alone = client.get("/studio/parts/models/linear", params={"version": 2}).text
    assert "What differs" not in alone
    assert '<a href="?version=2&amp;beside=1" >from 1</a>' in alone
    both = client.get("/studio/parts/models/linear", params={"version": 2, "beside": 1}).text
    assert "What differs from version 1" in both
    assert '<th scope="row">Contract</th><td colspan="2">the same</td>' in both
    assert "no operator more or less" in both
    answer = client.get("/studio/parts/models/linear", params={"version": 2, "beside": 3})
    assert_problem(answer, 404, "version-not-found")


def test_the_figures_of_a_version_count_what_was_refused_and_say_that_no_process_runs(client: TestClient) -> None:
    client.post("/trace", json=spec(), headers={"prefer": "wait=30"})
    asked = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 77], "data": [[0.0] * 77]}]}
    for _ in range(2):
        assert client.post("/infer/linear", json=asked).status_code == 422

    figures = words(client.get("/studio/parts/models/linear/figures", params={"version": 1}).text)

    assert "Answered 0 Not answered 2: refused by the contract, or for another reason Waiting now 0" in figures
    assert "Process cpu: none: one starts with the next request" in figures
    assert_problem(client.get("/studio/parts/models/linear/figures", params={"version": 2}), 404, "version-not-found")


def test_times_are_told_as_far_as_the_histogram_knows_them() -> None:
    counted = VersionStatistics()
    for ms in [1] * 98 + [30, 400]:
        counted.succeed(ms * 1_000_000)

    figures = Figures.of(counted, [("cpu", RunnerState.BUSY)])

    assert figures.times == [("mean", "5.28 ms"), ("p50", "at most 1 ms"), ("p99", "at most 50 ms")]
    assert figures.runners == [("cpu", "answers")]
    assert Figures.of(VersionStatistics(), []).times == []


def test_no_line_of_source_becomes_markup() -> None:
    for source in (f'x = "{HOSTILE}"', f"# {HOSTILE}", HOSTILE, f'"""{HOSTILE}\n{HOSTILE}"""', "x" * 2000 + HOSTILE):
        for line in colour(source):
            assert {tag for tag, _ in Tags(line).found} <= {"span"}
            assert "\u202e" not in line


def test_characters_that_take_no_room_in_a_line_are_named() -> None:
    [line] = colour("mode == 'fa\u200bst'  # \ufeff\u2066\U000e0041 \x9b ⚠\ufe0f é")

    shown = re.sub("<[^>]*>", "", line)
    assert "fa⟨ZERO WIDTH SPACE⟩st" in shown
    assert shown.endswith(
        "# ⟨ZERO WIDTH NO-BREAK SPACE⟩⟨LEFT-TO-RIGHT ISOLATE⟩⟨TAG LATIN CAPITAL LETTER A⟩ ⟨U+009B⟩ ⚠\ufe0f é"
    )


def test_lines_are_numbered_as_python_numbers_them() -> None:
    assert [re.sub("<[^>]*>", "", line) for line in colour("a = 1\r\nb = 2\rc = 3\n\n")] == [
        "a = 1",
        "b = 2",
        "c = 3",
        "",
    ]


def test_an_excerpt_has_the_line_and_its_neighbours_or_what_the_finding_quotes() -> None:
    sources = {"net.py": "a = 1\nb = 2\nc = 3\n"}

    assert [line.number for line in excerpt(sources, "net.py", 2, "b = 2")] == [1, 2, 3]
    assert [line.number for line in excerpt(sources, "net.py", 1, "a = 1")] == [1, 2]
    assert [line.number for line in excerpt({}, "net.py", 7, "b = 2")] == [7]
    assert excerpt({}, "net.py", 7, None) == excerpt(sources, None, 2, "b") == []


def test_of_a_long_file_only_what_is_around_named_lines_is_shown() -> None:
    file = whole_file("net.py", "x = 1\n" * 1000, [500, 10**9])

    numbers = [line.number for line in file.lines]
    assert numbers == [0, *range(488, 513), 0]


def test_of_a_file_that_is_not_at_hand_the_lines_that_made_nodes_are_shown() -> None:
    file = known_lines("torch/nn/modules/linear.py", {9: "b", 7: "a", 8: HOSTILE})

    assert [line.number for line in file.lines] == [0, 7, 8, 9]
