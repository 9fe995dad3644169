"""The picture of a graph in a real browser: what is folded is opened by a click, and nothing in it may do more."""

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.acceptance.conftest import Service, ended

OPENED_S = 120
LAYERS = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(*(nn.ReLU() for _ in range(10))) for _ in range(20))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
SUBMISSION = {
    "model": "layers",
    "source": {"files": {"layers.py": LAYERS}, "entrypoint": "layers:Net"},
    "example_inputs": [{"datatype": "FP32", "shape": [1, 2], "random": {"seed": 0}}],
}


def shown(browser: webdriver.Chrome) -> list[str]:
    return [text.text for text in browser.find_elements(By.CSS_SELECTOR, "text:not(.type)")]


def test_a_click_opens_a_folded_submodule(service: Service, browser: webdriver.Chrome) -> None:
    with service.client() as client:
        [artifact] = ended(client, client.post("/trace", json=SUBMISSION))["artifacts"]

    browser.get(f"{service.address}/artifacts/{artifact['digest']}/graph.svg?method=forward")
    assert shown(browser)[1:3] == ["layers.0", "layers.1"]

    ActionChains(browser).click(browser.find_elements(By.CSS_SELECTOR, "a rect")[1]).perform()
    WebDriverWait(browser, OPENED_S).until(lambda _: "open=" in browser.current_url)

    assert browser.current_url.endswith("/graph.svg?method=forward&open=layers.1")
    assert shown(browser)[1:4] == ["layers.0", "aten::relu", "aten::relu"]
    assert shown(browser).count("aten::relu") == 10
    assert browser.get_log("browser") == []
