"""How long the frames of the studio's page "source beside graph" take while a reader uses it, on graphs of 3,000 nodes.

One graph has its nodes in 60 submodules, which the page folds, the other has all of them in one module. In Chromium,
without a window, the pointer moves over boxes and over lines, the graph is dragged, zoomed and searched. Printed are
the median and the longest time between two frames in milliseconds, for each of these. Needs Chromium and its driver.

    .venv/bin/python benchmarks/studio_frames.py
"""

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import httpx
from selenium import webdriver
from selenium.webdriver.chrome.service import Service as Driver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.service_process import service

AIM_MS = 100
WAIT_S = 60
POINTS = 40
FEW = 10
FOLDED = """
from torch import nn

class Block(nn.Module):
    def forward(self, x):
        for _ in range(50):
            x = x.relu()
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(60))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""
FLAT = """
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        for _ in range(1000):
            x = x.relu()
            x = x.tanh()
            x = x.sigmoid()
        return x
"""
# Keeps the times at which the page was drawn, until they are asked for.
WATCH = """
window.frames_ = [performance.now()];
window.watching = true;
requestAnimationFrame(function note(now) {
  window.frames_.push(now);
  if (window.watching) requestAnimationFrame(note);
});
"""
READ = "window.watching = false; return window.frames_.slice(1).map((at, place) => at - window.frames_[place]);"


def main() -> None:
    print(f"{'graph':<8} {'boxes':>6} {'what the reader does':<22} {'median':>10} {'longest':>10} {'aim':>8}")
    with service() as url, tempfile.TemporaryDirectory() as profile:
        browser = open_browser(profile)
        try:
            for name, source in (("folded", FOLDED), ("flat", FLAT)):
                browser.get(f"{url}/studio/trace/{trace(url, name, source)}/graph")
                count = unfold(browser)
                for action, act in ACTIONS.items():
                    browser.execute_script(WATCH)
                    act(browser)
                    frames = browser.execute_script(READ)
                    print(
                        f"{name:<8} {count:>6} {action:<22} {statistics.median(frames):>7.1f} ms {max(frames):>7.1f} ms"
                        f" {AIM_MS:>5} ms"
                    )
        finally:
            browser.quit()


def open_browser(profile: str) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for option in ("--headless=new", "--no-sandbox", "--window-size=1400,1000", f"--user-data-dir={profile}"):
        options.add_argument(option)
    return webdriver.Chrome(options=options, service=Driver(shutil.which("chromedriver") or "chromedriver"))


def trace(url: str, name: str, source: str) -> str:
    spec = {
        "model": name,
        "source": {"files": {"net.py": source}, "entrypoint": "net:Net"},
        "example_inputs": [{"datatype": "FP32", "shape": [1, 4], "random": {"seed": 0}}],
        "check": {"probes": "off", "check_trace": False},
    }
    reply = httpx.post(f"{url}/trace", json=spec, headers={"prefer": f"wait={WAIT_S}"}, timeout=2 * WAIT_S)
    reply.raise_for_status()
    return str(reply.json()["id"])


def unfold(browser: webdriver.Chrome) -> int:
    """Open the first submodule until none is left or more than a few boxes are there; return how many there are."""
    while (count := boxes(browser)) <= FEW:
        folded = browser.find_elements(By.CSS_SELECTOR, ".box.folded")
        if not folded:
            break
        address = browser.current_url
        ActionChains(browser).double_click(folded[0]).perform()
        WebDriverWait(browser, WAIT_S).until(lambda _, before=address: browser.current_url != before)
    return count


def boxes(browser: webdriver.Chrome) -> int:
    """Wait until the graph is drawn, and return how many boxes it has, most of which may be out of sight."""
    canvas = browser.find_element(By.ID, "canvas")
    WebDriverWait(browser, WAIT_S).until(lambda _: canvas.get_attribute("aria-busy") == "false")
    said = browser.find_element(By.ID, "opened").text
    return int(said.split(" boxes")[0].rpartition(" ")[2])


def hover_boxes(browser: webdriver.Chrome) -> None:
    canvas = browser.find_element(By.ID, "canvas")
    move(
        browser, canvas, [(place * canvas.size["width"] / POINTS, canvas.size["height"] / 2) for place in range(POINTS)]
    )


def hover_lines(browser: webdriver.Chrome) -> None:
    for line in browser.find_elements(By.CSS_SELECTOR, "#lines tr")[:POINTS]:
        ActionChains(browser, duration=20).move_to_element(line).perform()


def drag(browser: webdriver.Chrome) -> None:
    canvas = browser.find_element(By.ID, "canvas")
    actions = ActionChains(browser, duration=10).move_to_element(canvas).click_and_hold()
    for place in range(POINTS):
        actions.move_by_offset(4 if place % 20 < 10 else -4, 3 if place % 10 < 5 else -3)
    actions.release().perform()


def zoom(browser: webdriver.Chrome) -> None:
    for control in ("in",) * 6 + ("out",) * 6:
        browser.find_element(By.ID, control).click()


def search(browser: webdriver.Chrome) -> None:
    field = browser.find_element(By.ID, "search")
    for letter in "relu":
        field.send_keys(letter)
    for _ in range(10):
        field.send_keys("\n")
    field.clear()


def move(browser: webdriver.Chrome, element: WebElement, points: list[tuple[float, float]]) -> None:
    width, height = element.size["width"], element.size["height"]
    actions = ActionChains(browser, duration=10)
    for x, y in points:
        actions.move_to_element_with_offset(element, int(x - width / 2), int(y - height / 2))
    actions.perform()


ACTIONS: dict[str, Callable[[webdriver.Chrome], None]] = {
    "moves over boxes": hover_boxes,
    "moves over lines": hover_lines,
    "drags": drag,
    "zooms": zoom,
    "searches": search,
}

if __name__ == "__main__":
    main()
