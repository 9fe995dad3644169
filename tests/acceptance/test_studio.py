"""The studio in a real browser that reaches nothing but this service."""

import ast
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

import tracehouse
from benchmarks.studio_frames import FLAT, FOLDED
from tests.acceptance.conftest import ANSWER_S, Service, create_key, ended, get, linear
from tests.conftest import wait_until
from tests.live_models import GATE, Gated
from tests.pictures import noise

AXE = files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")

BRANCHES = """\
import torch

print("read anew")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(2, 3)
        self.second = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())

    def forward(self, x):
        y = self.first(x)
        if y.sum() > 0:
            y = y * 2
        return self.second(y)
"""
LAYER_OF_PARTS = """\
from torch import nn

from parts import layer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = layer()

    def forward(self, x):
        return self.layer(x)
"""
SCRIPT = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
HOSTILE = f'''\
import torch

print("""</pre>{SCRIPT}a\u200bb""")


class Net(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # </code></table>{SCRIPT}
            return {{"""{SCRIPT}""": x * 2, """'">{SCRIPT}""": x}}
        return {{"""{SCRIPT}""": x - 1, """'">{SCRIPT}""": x}}
'''


@pytest.fixture(scope="module")
def branches(client: httpx.Client) -> dict[str, Any]:
    """A request that is rejected for one line, and served all the same."""
    source = {"files": {"net.py": BRANCHES}, "entrypoint": "net:Net"}
    return ended(client, client.post("/trace", json=linear(model="branches", source=source, accept_unsound=True)))


@pytest.fixture(scope="module")
def hostile(client: httpx.Client) -> dict[str, Any]:
    source = {"files": {"net.py": HOSTILE}, "entrypoint": "net:Net"}
    return ended(client, client.post("/trace", json=linear(model="hostile", source=source, accept_unsound=True)))


@pytest.fixture(autouse=True)
def _nothing_was_forbidden(browser: webdriver.Chrome) -> Iterator[None]:
    """No page wants what its policy forbids, fails in its script, or misses a file."""
    yield
    refused = [one["message"] for one in browser.get_log("browser") if "favicon" not in one["message"]]
    assert [said for said in refused if "status of 4" not in said] == []


def test_a_pasted_model_is_traced_before_the_readers_eyes(service: Service, browser: webdriver.Chrome) -> None:
    browser.get(f"{service.address}/")
    assert browser.current_url == f"{service.address}/studio"
    type_in(browser, "#source", BRANCHES.replace("read anew", "pasted"))
    type_in(browser, "#entrypoint", "net:Net")
    type_in(browser, "#model", "pasted")
    type_in(browser, ".input-row .shape", "1, 2")
    press(browser, "#send")

    find(browser, ".verdict-card.rejected")
    [cause] = browser.find_elements(By.CSS_SELECTOR, "[aria-labelledby='causes-title'] .cause")
    assert words(cause.find_element(By.CSS_SELECTOR, "tr.marked")) == "14 if y.sum() > 0:"
    assert "torch.where(y.sum() > 0" in cause.find_element(By.CSS_SELECTOR, ".remedy").text
    assert "x: FP32 [1, 2]" in cause.find_element(By.CSS_SELECTOR, ".counterexample").text
    marked = browser.find_element(By.CSS_SELECTOR, "details tr.marked")
    assert marked.find_element(By.LINK_TEXT, "cause 1").get_attribute("href").endswith("#cause-1")
    wait(browser, lambda: browser.find_element(By.ID, "log").text == "pasted")
    layers = browser.find_element(By.XPATH, "//table[caption='Layers of the check']").text
    assert "flip forward" in layers
    for link in browser.find_elements(By.CSS_SELECTOR, "a[data-download], a[data-open]"):
        assert get(link.get_attribute("href") or "").status_code == 200, link.text
    assert only_from(browser, service)


def test_an_edited_source_is_traced_again_and_compared(
    service: Service, browser: webdriver.Chrome, branches: dict[str, Any]
) -> None:
    browser.get(f"{service.address}/studio/trace/{branches['id']}")
    find(browser, ".cause")
    browser.find_element(By.LINK_TEXT, "Edit and trace again").click()
    wait(browser, lambda: "y.sum() > 0" in (browser.find_element(By.ID, "source").get_attribute("value") or ""))
    wait(browser, lambda: browser.find_element(By.ID, "as-before").is_displayed())
    mended = BRANCHES.replace("        if y.sum() > 0:\n            y = y * 2\n", "        y = y.neg().neg()\n")
    type_in(browser, "#source", mended)
    press(browser, "#send")

    find(browser, ".verdict-card.verified")
    rows = [words(row) for row in find(browser, "#changes").find_elements(By.CSS_SELECTOR, "tbody tr")]
    assert rows[0] == "Verdict ✗ rejected ✓ verified"
    assert rows[1] == "Causes only there ✗ baked-value at net.py:14 if y.sum() > 0: none"
    assert "aten::neg 0 2" in rows
    assert find(browser, "#changes").find_element(By.LINK_TEXT, "Before").get_attribute("href").endswith(branches["id"])


PARTS = """\
def doubled_if_positive(x):
    if x.sum() > 0:
        return x * 2
    return x
"""
NET_OF_PARTS = """\
from torch import nn

from pack.parts import doubled_if_positive


class Net(nn.Module):
    def forward(self, x):
        return doubled_if_positive(x)
"""


def test_a_file_of_several_is_chosen_edited_and_traced_again(
    service: Service, browser: webdriver.Chrome, client: httpx.Client
) -> None:
    files = {"net.py": NET_OF_PARTS, "pack/__init__.py": "", "pack/parts.py": PARTS, "pack/notes.txt": "kept"}
    sent = linear(model="of-parts", source={"files": files, "entrypoint": "net:Net"})
    before = ended(client, client.post("/trace", json=sent))
    browser.get(f"{service.address}/studio/trace/{before['id']}")
    find(browser, ".verdict-card.rejected")
    browser.find_element(By.LINK_TEXT, "Edit and trace again").click()

    wait(browser, lambda: browser.find_element(By.ID, "source").get_attribute("value") == PARTS)
    assert find(browser, "#source-label").text == "Source: pack/parts.py"
    type_in(browser, "#source", "def doubled_if_positive(x):\n    return x * 2\n")
    chosen = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#file-list [aria-pressed]")]
    assert chosen == [*files]
    browser.find_element(By.XPATH, "//button[text()='net.py']").click()
    assert find(browser, "#source").get_attribute("value") == NET_OF_PARTS
    assert find(browser, "#file-list [aria-pressed=true]").text == "net.py"
    type_in(browser, "#source", NET_OF_PARTS.replace("(x)\n", "(x) + 1\n", 1))
    browser.find_element(By.CSS_SELECTOR, "[aria-label='Remove pack/notes.txt']").click()
    press(browser, "#send")

    find(browser, ".verdict-card.verified")
    assert find(browser, "#changes").find_element(By.LINK_TEXT, "Before")
    edited = get(f"{service.address}/trace/{browser.current_url.rpartition('/')[2].partition('?')[0]}/source").json()
    assert edited["files"]["pack/parts.py"] == "def doubled_if_positive(x):\n    return x * 2\n"
    assert "(x) + 1" in edited["files"]["net.py"]
    assert "pack/notes.txt" not in edited["files"]


def test_a_model_of_the_client_is_edited_and_keeps_its_weights(service: Service, browser: webdriver.Chrome) -> None:
    torch.manual_seed(0)
    model = Gated().eval()
    before = tracehouse.Client(service.address).trace(model, torch.ones(1, 2), name="gated")
    assert before.verdict == "rejected"
    browser.get(f"{service.address}/studio/trace/{before.id}")
    find(browser, ".verdict-card.rejected")
    browser.find_element(By.LINK_TEXT, "Edit and trace again").click()

    wait(browser, lambda: browser.find_element(By.ID, "as-before").is_displayed())
    assert find(browser, "#source-label").text in ("Source", "Source: tests/live_models.py")
    text = find(browser, "#source").get_attribute("value") or ""
    assert GATE in text
    type_in(browser, "#source", text.replace(GATE, "        return self.linear(x).neg()\n"))
    press(browser, "#send")

    find(browser, ".verdict-card.verified")
    answer = tracehouse.Client(service.address).infer("gated", torch.ones(1, 2))
    assert torch.allclose(answer, -model.linear(torch.ones(1, 2)))


def test_of_a_zip_what_a_finding_names_can_be_edited(
    service: Service, browser: webdriver.Chrome, client: httpx.Client, tmp_path: Path
) -> None:
    with ZipFile(tmp_path / "net.zip", "w") as packed:
        for path, text in {"net.py": NET_OF_PARTS, "pack/__init__.py": "", "pack/parts.py": PARTS}.items():
            packed.writestr(path, text)
    sent = linear(model="of-zip", source={"file": "net.zip", "entrypoint": "net:Net"})
    parts = [("request", (None, json.dumps(sent))), ("files", ("net.zip", (tmp_path / "net.zip").read_bytes()))]
    before = ended(client, client.post("/trace", files=parts))
    browser.get(f"{service.address}/studio/trace/{before['id']}")
    find(browser, ".verdict-card.rejected")
    browser.find_element(By.LINK_TEXT, "Edit and trace again").click()
    wait(browser, lambda: browser.find_element(By.ID, "source").get_attribute("value") == PARTS)
    mended = "def doubled_if_positive(x):\n    return x * 2\n"
    type_in(browser, "#source", mended)
    press(browser, "#send")

    find(browser, ".verdict-card.verified")
    edited = get(f"{service.address}/trace/{browser.current_url.rpartition('/')[2].partition('?')[0]}/source").json()
    assert (edited["file"], edited["files"]) == ("net.zip", {"pack/parts.py": mended})


def test_dropped_files_can_be_edited_before_they_are_sent(
    service: Service, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    (tmp_path / "parts.py").write_text("FACTOR = 2\n")
    (tmp_path / "net.py").write_text("from parts import FACTOR\n\n\ndef scaled(x):\n    return x * FACTOR\n")
    browser.get(f"{service.address}/studio")
    for name in ("parts.py", "net.py"):
        find(browser, "#files", is_shown=False).send_keys(str(tmp_path / name))
        wait(browser, lambda name=name: browser.find_element(By.ID, "source").get_attribute("value")
             == (tmp_path / name).read_text())  # fmt: skip
    browser.find_element(By.XPATH, "//button[text()='parts.py']").click()
    type_in(browser, "#source", "FACTOR = 7\n")
    type_in(browser, "#entrypoint", "net:scaled")
    type_in(browser, "#model", "dropped")
    type_in(browser, ".input-row .shape", "1, 2")
    press(browser, "#send")

    find(browser, ".verdict-card.verified")
    assert "FACTOR = 7" in browser.find_element(By.ID, "trace").get_attribute("textContent")  # type: ignore[operator]


def test_the_page_of_a_running_request_follows_it_and_can_cancel_it(
    service: Service, browser: webdriver.Chrome
) -> None:
    waits = "import time\nprint('awake', flush=True)\ntime.sleep(600)\n\n\nclass Net:\n    pass\n"
    with service.client() as client:
        source = {"files": {"net.py": waits}, "entrypoint": "net:Net"}
        request = client.post("/trace", json=linear(source=source)).json()
    browser.get(f"{service.address}/studio/trace/{request['id']}")

    wait(browser, lambda: browser.find_element(By.ID, "log").text == "awake")
    assert find(browser, "#stage").text == "loading"
    press(browser, "#cancel")
    wait(browser, lambda: "Cancelled" in browser.find_element(By.ID, "trace").text)


def test_the_page_of_a_running_check_says_what_is_left_of_its_budget(
    service: Service, browser: webdriver.Chrome, client: httpx.Client
) -> None:
    slow = "import time\n\n\ndef slow(x):\n    time.sleep(0.3)\n    return x * 2\n"
    source = {"files": {"net.py": slow}, "entrypoint": "net:slow"}
    request = client.post("/trace", json=linear(source=source, check={"budget": "deep"})).json()
    browser.get(f"{service.address}/studio/trace/{request['id']}")

    wait(browser, lambda: browser.find_element(By.ID, "left").text)
    said, done = find(browser, "#left").text, find(browser, "#progress").get_attribute("value")
    press(browser, "#cancel")

    assert re.fullmatch(r"at most [0-9]+ s of the check's budget left", said)
    assert 0.5 < float(done or 0) < 0.8


def test_dropped_files_and_weights_are_sent(service: Service, browser: webdriver.Chrome, tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("from torch import nn\n\n\ndef layer():\n    return nn.Linear(2, 2)\n")
    (tmp_path / "net.py").write_text(LAYER_OF_PARTS)
    made = "import sys; sys.path.insert(0, '.'); import torch, net; torch.save(net.Net().state_dict(), 'weights.pt')"
    subprocess.run([sys.executable, "-c", made], cwd=tmp_path, check=True)
    browser.get(f"{service.address}/studio")

    find(browser, "#files", is_shown=False).send_keys(f"{tmp_path / 'parts.py'}\n{tmp_path / 'net.py'}")
    wait(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "#file-list li")) == 2)
    type_in(browser, "#entrypoint", "net:Net")
    type_in(browser, ".input-row .shape", "1, 2")
    browser.execute_script("document.querySelector('details').open = true")
    find(browser, "#weights").send_keys(str(tmp_path / "weights.pt"))
    press(browser, "#send")

    find(browser, ".verdict-card.verified")
    assert "Nothing was found that speaks against the trace." in browser.find_element(By.ID, "trace").text


def test_a_zip_is_traced(service: Service, browser: webdriver.Chrome, tmp_path: Path) -> None:
    with ZipFile(tmp_path / "net.zip", "w") as packed:
        packed.writestr("net.py", NET_OF_PARTS)
        packed.writestr("pack/parts.py", PARTS)
    browser.get(f"{service.address}/studio")

    find(browser, "#files", is_shown=False).send_keys(str(tmp_path / "net.zip"))
    wait(browser, lambda: not browser.find_element(By.ID, "source").is_enabled())
    type_in(browser, "#entrypoint", "net:Net")
    type_in(browser, "#model", "zipped")
    type_in(browser, ".input-row .shape", "1, 2")
    press(browser, "#send")

    find(browser, ".verdict-card.rejected")
    assert words(find(browser, ".cause tr.marked")) == "2 if x.sum() > 0:"


def test_an_archive_is_served_without_its_source(service: Service, browser: webdriver.Chrome, tmp_path: Path) -> None:
    torch.jit.trace(torch.nn.Linear(2, 3).eval(), torch.ones(1, 2)).save(tmp_path / "net.pt")
    browser.get(f"{service.address}/studio")

    find(browser, "#files", is_shown=False).send_keys(str(tmp_path / "net.pt"))
    wait(browser, lambda: not browser.find_element(By.ID, "entrypoint").is_displayed())
    type_in(browser, "#model", "packed")
    type_in(browser, ".input-row .shape", "1, 2")
    press(browser, "#send")

    assert "self-consistent" in find(browser, ".verdict-card").text


def test_pictures_are_samples(service: Service, browser: webdriver.Chrome, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(noise())
    browser.get(f"{service.address}/studio")
    type_in(browser, "#source", "def mean(x):\n    return x.mean((2, 3))\n")
    type_in(browser, "#entrypoint", "net:mean")
    type_in(browser, "#model", "pictures")
    type_in(browser, ".input-row .shape", "1, 3, 8, 8")
    browser.execute_script("document.querySelector('details').open = true")
    find(browser, "#samples").send_keys(str(tmp_path / "cat.png"))
    type_in(browser, "#mean", "0.5, 0.4, 0.3")
    type_in(browser, "#std", "0.25")
    press(browser, "#send")

    find(browser, ".verdict-card")
    [artifact] = get(f"{service.address}/trace/{browser.current_url.rpartition('/')[2]}").json()["artifacts"]
    assert get(f"{service.address}/artifacts/{artifact['digest']}").json()["check"]["samples"] == 1

    browser.get(f"{service.address}/studio/models/pictures")
    Select(find(browser, ".tensor .values")).select_by_value("picture")
    assert "resized to 8 by 8, in colours, from 0 to 1, less 0.5, 0.4, 0.3, by 0.25" in find(browser, ".picture").text
    assert not find(browser, ".tensor .shape").is_enabled()
    press(browser, ".infer .primary")
    assert "Choose a picture" in find(browser, "#problems .problem").text
    find(browser, ".picture .file").send_keys(str(tmp_path / "cat.png"))
    press(browser, ".infer .primary")
    shown = [float(number) for number in find(browser, ".answer code").text.split(",")]
    with Image.open(tmp_path / "cat.png") as picture:
        seen = np.asarray(picture.resize((8, 8), Image.Resampling.BILINEAR)) / 255
    assert shown == pytest.approx((seen.mean((0, 1)) - [0.5, 0.4, 0.3]) / 0.25, abs=1e-4)
    assert "image/png" in find(browser, ".snippets").get_attribute("textContent")  # type: ignore[operator]


def test_a_request_is_found_again(service: Service, browser: webdriver.Chrome, branches: dict[str, Any]) -> None:
    browser.get(f"{service.address}/studio")
    find(browser, "#requests .list")
    find(browser, "#filter-search").send_keys("no such model")
    wait(browser, lambda: "No trace request is like that." in browser.find_element(By.ID, "requests").text)
    find(browser, "#filter-search").clear()
    find(browser, "#filter-search").send_keys("ranches")
    wait(browser, lambda: "No trace request" not in browser.find_element(By.ID, "requests").text)
    assert browser.find_elements(By.CSS_SELECTOR, f"#requests a[href$='{branches['id']}']")


def test_an_answer_that_comes_late_takes_the_place_of_no_later_one(
    service: Service, browser: webdriver.Chrome, branches: dict[str, Any]
) -> None:
    browser.get(f"{service.address}/studio")
    find(browser, "#requests .list")
    browser.execute_script(HOLDS_BACK_WHAT_IS_ASKED_OF_NONE)
    find(browser, "#filter-search").send_keys("none")
    wait(browser, lambda: browser.execute_script("return window.held.length > 0"))
    find(browser, "#filter-search").clear()
    find(browser, "#filter-search").send_keys("ranches")
    wait(browser, lambda: browser.execute_script(IS_SHOWN_ANEW))

    browser.execute_async_script("Promise.all(window.held.map((go) => go())).then(() => setTimeout(arguments[0], 200))")

    assert browser.find_elements(By.CSS_SELECTOR, f"#requests a[href$='{branches['id']}']")


IS_SHOWN_ANEW = "return ![null, window.first].includes(document.querySelector('#requests ul'))"
HOLDS_BACK_WHAT_IS_ASKED_OF_NONE = """
const { fetch } = window;
window.held = [];
window.first = document.querySelector("#requests ul");
window.fetch = (path, options) => {
  if (!path.includes("search=n")) return fetch(path, options);
  return new Promise((answer) => window.held.push(() => answer(fetch(path, options))));
};
"""


@pytest.fixture
def sleeping(client: httpx.Client) -> Iterator[list[dict[str, Any]]]:
    """Two requests, one and other, that run until the end of the test, as many as run at a time."""
    source = {"files": {"net.py": "import time\ntime.sleep(600)\n"}, "entrypoint": "net:Net"}
    requests = [client.post("/trace", json=linear(model=name, source=source)).json() for name in ("one", "other")]
    wait_until(lambda: all(client.get(one["links"]["self"]).json()["state"] == "running" for one in requests))
    yield requests
    for one in requests:
        client.post(f"/trace/{one['id']}/cancel")


@pytest.mark.usefixtures("sleeping")
def test_a_list_that_is_shown_anew_takes_no_problem_from_the_page(service: Service, browser: webdriver.Chrome) -> None:
    browser.get(f"{service.address}/studio")
    find(browser, "#requests [data-live]")
    press(browser, "#example")
    browser.execute_script("document.getElementById('entrypoint').value = 'net'")
    press(browser, "#send")
    find(browser, "#problems .problem")
    browser.execute_script("window.first = document.querySelector('#requests ul')")

    wait(browser, lambda: browser.execute_script(IS_SHOWN_ANEW))

    assert "/source/entrypoint" in find(browser, "#problems .problem").text


def test_a_list_that_follows_requests_goes_on_after_failures_and_says_what_changed(
    service: Service, browser: webdriver.Chrome, client: httpx.Client, sleeping: list[dict[str, Any]]
) -> None:
    browser.get(f"{service.address}/studio")
    find(browser, "#requests [data-live]")
    browser.execute_script(FAILS_TWICE_AND_NOTES_WHAT_IS_READ_ALOUD)

    said = find(browser, "#problems .problem").text
    wait(browser, lambda: browser.execute_script("return window.failures") == 0)
    wait(browser, lambda: not browser.find_elements(By.CSS_SELECTOR, "#problems .problem"))
    client.post(f"/trace/{sleeping[0]['id']}/cancel")
    wait(browser, lambda: browser.execute_script("return window.read.some((text) => text.includes('cancelled'))"))

    assert "does not answer" in said
    assert browser.execute_script("return window.read") == ["cancelled one"]


FAILS_TWICE_AND_NOTES_WHAT_IS_READ_ALOUD = """
const { fetch } = window;
window.failures = 2;
window.fetch = (path, options) => {
  if (window.failures > 0 && path.includes("/parts/requests")) {
    window.failures -= 1;
    return Promise.reject(new TypeError("no network"));
  }
  return fetch(path, options);
};
window.read = [];
const note = new MutationObserver(() => window.read.push(document.getElementById("news").textContent));
note.observe(document.getElementById("news"), { childList: true });
if (document.querySelector("#requests").closest("[aria-live]")) window.read.push("all of the list");
"""


def test_what_is_refused_is_said_beside_the_form(service: Service, browser: webdriver.Chrome) -> None:
    browser.get(f"{service.address}/studio")
    press(browser, "#example")
    browser.execute_script("document.getElementById('entrypoint').value = 'net'")
    press(browser, "#send")

    said = find(browser, "#problems .problem").text
    assert "/source/entrypoint" in said
    assert "module:name" in said


def test_a_line_and_its_nodes_light_up_together(
    service: Service, browser: webdriver.Chrome, branches: dict[str, Any]
) -> None:
    browser.get(f"{service.address}/studio/trace/{branches['id']}/graph")
    rows = wait(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#lines tr.made"))
    first = next(row for row in rows if "self.first(x)" in row.text)
    ActionChains(browser).move_to_element(first.find_element(By.TAG_NAME, "code")).perform()
    assert lit_boxes(browser) == ["aten::linear"]

    box = find_box(browser, "aten::relu")
    ActionChains(browser).click(box).perform()
    lit = [words(row) for row in browser.find_elements(By.CSS_SELECTOR, "#lines tr.lit")]
    assert lit == ["16 return self.second(y)"]
    said = find(browser, "#node").text
    assert all(each in said for each in ("aten::relu", "Float(1, 3)", "net.py:16", "second.1"))
    assert [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#legend li")] == ["first", "second"]


def test_the_graph_is_searched_and_walked_with_the_keyboard(
    service: Service, browser: webdriver.Chrome, branches: dict[str, Any]
) -> None:
    browser.get(f"{service.address}/studio/trace/{branches['id']}/graph")
    find(browser, ".box")
    search = find(browser, "#search")
    search.send_keys("relu")
    assert find(browser, "#found").text == "1 found"
    search.send_keys(Keys.ENTER)
    assert chosen_box(browser) == "aten::relu"
    canvas = find(browser, "#canvas")
    canvas.send_keys(Keys.ARROW_UP)
    assert chosen_box(browser) == "aten::linear"
    canvas.send_keys(Keys.HOME)
    assert chosen_box(browser) == "x"
    row = find(browser, "#lines tr.made")
    row.send_keys(Keys.ENTER)
    assert chosen_box(browser) == "aten::linear"


def test_printouts_are_shown_with_links_to_the_nodes(
    service: Service, browser: webdriver.Chrome, branches: dict[str, Any]
) -> None:
    browser.get(f"{service.address}/studio/trace/{branches['id']}/graph")
    find(browser, ".box")
    Select(find(browser, "#text-kind")).select_by_value("inlined_graph")
    row = wait(browser, lambda: row_with(browser, "aten::relu"))
    ActionChains(browser).move_to_element(row.find_element(By.TAG_NAME, "th")).perform()
    assert "aten::relu" in lit_boxes(browser)
    Select(find(browser, "#text-kind")).select_by_value("code")
    wait(browser, lambda: row_with(browser, "def forward(self,"))


@pytest.mark.parametrize(
    ("source", "folded", "nodes", "boxes"), [(FOLDED, "blocks", "3,120", 62), (FLAT, "the model", "3,000", 1502)]
)
def test_a_graph_of_3000_nodes_is_folded_and_opens(
    service: Service, browser: webdriver.Chrome, source: str, folded: str, nodes: str, boxes: int
) -> None:
    with service.client() as client:
        files = {"files": {"net.py": source}, "entrypoint": "net:Net"}
        check = {"probes": "off", "check_trace": False}
        request = ended(client, client.post("/trace", json=linear(model="deep", source=files, check=check)))
    assert request["state"] == "succeeded", request
    browser.get(f"{service.address}/studio/trace/{request['id']}/graph")

    find(browser, ".box.folded")
    assert f"{nodes} nodes" in find(browser, "#opened").text
    assert number_of_boxes(browser) < 100
    ActionChains(browser).double_click(find(browser, ".box.folded")).perform()
    fold = find(browser, "#opened .chip")
    assert folded in fold.text
    assert "open=" in browser.current_url
    assert number_of_boxes(browser) == boxes
    assert 0 < len(browser.find_elements(By.CSS_SELECTOR, ".box")) < 100  # those out of sight are not there
    fold.click()
    wait(browser, lambda: not browser.find_elements(By.CSS_SELECTOR, "#opened .chip"))


def test_hostile_text_stays_text(service: Service, browser: webdriver.Chrome, hostile: dict[str, Any]) -> None:
    pages = [
        (f"/studio/trace/{hostile['id']}", ".cause"),
        (f"/studio/trace/{hostile['id']}/graph", ".box"),
        ("/studio/models/hostile?version=1&beside=1", "#changes"),
        ("/studio", "#requests .list"),
    ]
    for path, shown in pages:
        browser.get(service.address + path)
        find(browser, shown)
        if path.endswith("/graph"):
            for box in browser.find_elements(By.CSS_SELECTOR, ".box"):
                browser.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", box)
        if "/models/" in path:
            press(browser, ".infer .primary")
            assert SCRIPT in find(browser, ".answer table").text
        elif path == pages[0][0]:
            wait(browser, lambda: f"{SCRIPT}a⟨U+200B⟩b" in browser.find_element(By.ID, "log").text)
        time.sleep(0.3)
        assert browser.execute_script("return window.hacked") is None, path
        assert browser.find_elements(By.CSS_SELECTOR, "main img, main script") == [], path


def test_a_model_is_asked_promoted_and_named(service: Service, browser: webdriver.Chrome) -> None:
    with service.client() as client:
        for init in (1, 2):
            source = {
                "files": {"net.py": f"SEED = {init}\n" + linear()["source"]["files"]["net.py"]},
                "entrypoint": "net:Net",
            }
            ended(client, client.post("/trace", json=linear(model="studied", source=source, promote="never")))
        browser.get(f"{service.address}/studio/models/studied?version=1")

        press(browser, ".promote[data-version='2']")
        wait(browser, lambda: "alone is answered by version 2" in browser.find_element(By.ID, "model").text)
        type_in(browser, "#alias", "prod")
        press(browser, "#alias-form button")
        assert find(browser, "[data-alias='prod'] td").text == "1"
        found = client.get("/models/studied").json()
        assert found["default_version"] == 2
        assert [(one["alias"], one["version"]) for one in found["aliases"]] == [("prod", 1)]

        type_in(browser, ".tensor .shape", "3, 2")
        press(browser, ".infer .primary")
        assert "[3, " in find(browser, ".answer table").text
        type_in(browser, ".tensor .shape", "3, 7")
        press(browser, ".infer .primary")
        refused = find(browser, "#problems .problem").text
        assert "7" in refused
        assert browser.find_elements(By.CSS_SELECTOR, ".answer table") == []

        Select(find(browser, ".tensor .values")).select_by_value("typed")
        type_in(browser, ".tensor .shape", "1, 2")
        type_in(browser, ".tensor .data", "[[1, 2]]")
        press(browser, ".infer .primary")
        shown = find(browser, ".answer code").text
        asked = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[1, 2]]}]}
        answer = client.post("/infer/studied:1", json=asked).json()["outputs"][0]["data"]
        assert json.loads(f"[{shown}]") == flat(answer)

        # The page asks for the figures by itself.
        wait(browser, lambda: "Not answered\n1: refused by the contract" in find(browser, "#figures").text)
        wait(browser, lambda: "Answered\n3, in 3 calls" in find(browser, "#figures").text)
        assert "Process\ncpu: ready" in find(browser, "#figures").text
        browser.find_element(By.LINK_TEXT, "from 2").click()
        rows = [words(row) for row in find(browser, "#changes").find_elements(By.CSS_SELECTOR, "tbody tr")]
        assert rows[0] == "Verdict ✓ verified ✓ verified"
        assert {"Contract the same", "Graph no operator more or less"} <= {*rows}


def test_a_page_that_is_out_of_date_promotes_nothing(service: Service, browser: webdriver.Chrome) -> None:
    with service.client() as client:
        source = {"files": {"net.py": f"SEED = 3\n{linear()['source']['files']['net.py']}"}, "entrypoint": "net:Net"}
        for number in (1, 2):
            request = linear(model="raced", source=source, promote="never", force=number == 2)
            ended(client, client.post("/trace", json=request))
        browser.get(f"{service.address}/studio/models/raced?version=1")
        find(browser, ".promote[data-version='2']")
        client.post("/models/raced/promote", json={"version": 1}).raise_for_status()

        press(browser, ".promote[data-version='2']")

        assert "default version" in find(browser, "#problems .problem").text
        assert client.get("/models/raced").json()["default_version"] == 1


def test_the_snippets_of_a_model_run(service: Service, browser: webdriver.Chrome, tmp_path: Path) -> None:
    with service.client() as client:
        ended(client, client.post("/trace", json=linear(model="asked")))
    browser.get(f"{service.address}/studio/models/asked")
    find(browser, ".infer")
    snippets = {
        block.find_element(By.XPATH, "preceding-sibling::h4[1]").get_attribute("textContent"): block.find_element(
            By.TAG_NAME, "pre"
        ).get_attribute("textContent")
        for block in browser.find_elements(By.CSS_SELECTOR, ".snippet")
    }
    assert set(snippets) == {"curl", "Python", "tritonclient"}
    for title, text in snippets.items():
        assert text is not None
        command = ["sh", "-c", f"{text} --silent --fail"] if title == "curl" else [sys.executable, "-c", text]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=ANSWER_S, check=False)
        assert ran.returncode == 0, (title, ran.stderr)
        if title != "curl":
            ast.parse(text)
        assert ran.stdout.strip(), title


def test_with_keys_the_page_asks_for_one_and_keeps_it_for_this_tab(
    service_with_keys: Service, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    service, key = service_with_keys, create_key(service_with_keys, "--tenant", "studio")
    downloads = tmp_path / "downloads"
    allowed = {"behavior": "allow", "downloadPath": str(downloads)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    browser.get(f"{service.address}/studio")
    assert "Paste your API key" in find(browser, "#problems .problem").text

    type_in(browser, "#key", f"“{key}”")
    press(browser, "#key-form button")
    wait(browser, lambda: "This is no API key" in browser.find_element(By.ID, "problems").text)
    type_in(browser, "#key", key)
    press(browser, "#key-form button")
    wait(browser, lambda: "Nothing was traced yet" in browser.find_element(By.ID, "requests").text)
    press(browser, "#example")
    press(browser, "#send")
    find(browser, ".cause")
    press(browser, ".counterexample a[href$='.py']")
    wait(browser, lambda: [*downloads.glob("*.py")])
    assert "def test_" in next(downloads.glob("*.py")).read_text()
    assert key not in browser.page_source
    assert browser.execute_script("return localStorage.length") == 0
    press(browser, "a.home")
    wait(browser, lambda: "rejected" in browser.find_element(By.ID, "requests").text)
    press(browser, "#key-forget")
    find(browser, "#problems .problem")
    # A browser shows a page that it left as it was, without asking the service.
    browser.back()
    assert "Paste your API key" in find(browser, "#problems .problem").text
    assert browser.find_elements(By.CSS_SELECTOR, ".cause") == []


def test_nobody_is_kept_from_using_a_page(
    service: Service, client: httpx.Client, browser: webdriver.Chrome, branches: dict[str, Any]
) -> None:
    ended(client, client.post("/trace", json=linear(model="sized")))
    pages = [
        ("/studio", "#requests .list"),
        (f"/studio/trace/{branches['id']}", ".cause"),
        (f"/studio/trace/{branches['id']}/graph", ".box"),
        ("/studio/models/branches?version=1&beside=1", "#figures dl"),
        ("/studio/models/sized", "svg[role='img']"),
    ]
    for scheme in ("light", "dark"):
        prefers = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [prefers]})
        for path, shown in pages:
            browser.get(service.address + path)
            find(browser, shown)
            browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
            browser.execute_script(AXE)
            found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
            violations = [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]]
            assert violations == [], (scheme, path)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/studio", "#requests .list"),
        ("/studio/trace/{id}", ".cause"),
        ("/studio/trace/{id}/graph", ".box"),
        ("/studio/models/branches?version=1&beside=1", "#figures dl"),
    ],
)
def test_the_pages_fit_a_narrow_screen(
    service: Service, browser: webdriver.Chrome, branches: dict[str, Any], path: str, shown: str
) -> None:
    narrow = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    browser.get(service.address + path.format(id=branches["id"]))
    find(browser, shown)
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")

    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360


def test_the_report_fits_a_narrow_screen_and_hands_out_the_files_that_it_names(
    service: Service, browser: webdriver.Chrome, branches: dict[str, Any], tmp_path: Path
) -> None:
    allowed = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    narrow = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    browser.get(f"{service.address}/artifacts/{branches['artifacts'][0]['digest']}/report")

    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    [card] = browser.find_elements(By.CSS_SELECTOR, ".finding.harmful")
    card.find_element(By.CSS_SELECTOR, "a[href$='.npz']").click()
    wait(browser, lambda: [*tmp_path.glob("*.npz")])
    browser.find_element(By.PARTIAL_LINK_TEXT, "Graph").click()
    wait(browser, lambda: browser.current_url.endswith("/graph.svg"))


def wait(browser: webdriver.Chrome, holds: Any) -> Any:
    return WebDriverWait(browser, ANSWER_S, poll_frequency=0.1).until(lambda _: holds())


def find(browser: webdriver.Chrome, selector: str, *, is_shown: bool = True) -> WebElement:
    """The first element, as soon as it is there."""

    def found() -> WebElement | None:
        elements = browser.find_elements(By.CSS_SELECTOR, selector)
        return next((one for one in elements if one.is_displayed() or not is_shown), None)

    element: WebElement = wait(browser, found)
    return element


def press(browser: webdriver.Chrome, selector: str) -> None:
    find(browser, selector)
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def type_in(browser: webdriver.Chrome, selector: str, text: str) -> None:
    field = find(browser, selector)
    field.clear()
    browser.execute_script("arguments[0].value = arguments[1]", field, text)


def number_of_boxes(browser: webdriver.Chrome) -> int:
    """As the page says it: 3,120 nodes in 62 boxes."""
    return int(find(browser, "#opened").text.split(" boxes")[0].rpartition(" ")[2])


def find_box(browser: webdriver.Chrome, label: str) -> WebElement:
    def found() -> WebElement | None:
        boxes = browser.find_elements(By.CSS_SELECTOR, ".box")
        return next((box for box in boxes if label in box.text), None)

    box: WebElement = wait(browser, found)
    return box


def lit_boxes(browser: webdriver.Chrome) -> list[str]:
    return [box.text.split("\n")[0] for box in browser.find_elements(By.CSS_SELECTOR, ".box.lit .label")]


def chosen_box(browser: webdriver.Chrome) -> str:
    return browser.find_element(By.CSS_SELECTOR, ".box.chosen .label").text


def row_with(browser: webdriver.Chrome, text: str) -> WebElement | None:
    """The row as it is now: the page may be about to replace all of them."""
    script = "return [...document.querySelectorAll('#lines tr')].find(row => row.textContent.includes(arguments[0]))"
    row: WebElement | None = browser.execute_script(script, text)
    return row


def only_from(browser: webdriver.Chrome, service: Service) -> bool:
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    return all(address.startswith(service.address) for address in loaded)


def words(element: WebElement) -> str:
    return " ".join(element.text.split())


def flat(values: list[Any]) -> list[Any]:
    return [leaf for one in values for leaf in (flat(one) if isinstance(one, list) else [one])]
