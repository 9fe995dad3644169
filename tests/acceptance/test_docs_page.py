"""The API documentation in a real browser that reaches nothing but this service."""

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.acceptance.conftest import Service, StartService, create_key, ended

WAIT_S = 120


def test_the_worked_examples_can_be_sent_as_they_are(start_service: StartService, browser: webdriver.Chrome) -> None:
    service = start_service()
    browser.get(f"{service.address}/docs")
    assert send_example(browser, "post", "/trace") == "202"
    with service.client() as client:
        [request] = client.get("/trace").json()["trace_requests"]
        assert ended(client, client.get(request["links"]["self"]))["verdict"] == "verified"
    assert send_example(browser, "post", "/infer/{model}") == "200"
    assert send_example(browser, "get", "/models/{name}") == "200"
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert all(address.startswith((service.address, "data:")) for address in loaded), loaded
    assert forbidden_by_policy(browser) == []


def test_a_key_that_authorize_was_given_is_sent(service_with_keys: Service, browser: webdriver.Chrome) -> None:
    key = create_key(service_with_keys, "--tenant", "docs-page")
    browser.get(f"{service_with_keys.address}/docs")
    assert send_example(browser, "get", "/models") == "401"
    click(browser, find(browser, "//div[contains(@class,'auth-wrapper')]/button[contains(@class,'authorize')]"))
    asked = find(browser, "//div[contains(@class,'modal-ux')]")
    find(browser, ".//input", asked).send_keys(key)
    click(browser, find(browser, ".//button[contains(@class,'authorize')]", asked))
    click(browser, find(browser, "//button[contains(@class,'btn-done')]"))
    assert send_example(browser, "post", "/trace") == "202"
    assert forbidden_by_policy(browser) == []


def forbidden_by_policy(browser: webdriver.Chrome) -> list[str]:
    """What the page wanted to do, and its Content-Security-Policy did not let it."""
    return [entry["message"] for entry in browser.get_log("browser") if "Content Security Policy" in entry["message"]]


def send_example(browser: webdriver.Chrome, method: str, path: str) -> str:
    """Open a route, press "Try it out" and "Execute", change nothing: the status of the reply."""
    route = find(browser, f"//div[contains(@class,'opblock-{method}')][.//span[@data-path='{path}']]")
    click(browser, find(browser, ".//button[contains(@class,'opblock-summary-control')]", route))
    click(browser, find(browser, ".//button[contains(@class,'try-out__btn')]", route))
    click(browser, find(browser, ".//button[contains(@class,'execute')]", route))
    status = ".//tr[@class='response']/td[contains(@class,'response-col_status')]"
    return find(browser, f".//table[contains(@class,'live-responses-table')]{status[1:]}", route).text.split()[0]


def find(browser: webdriver.Chrome, xpath: str, within: WebElement | None = None) -> WebElement:
    return WebDriverWait(browser, WAIT_S).until(lambda _: (within or browser).find_element(By.XPATH, xpath))


def click(browser: webdriver.Chrome, button: WebElement) -> None:
    browser.execute_script("arguments[0].click()", button)
