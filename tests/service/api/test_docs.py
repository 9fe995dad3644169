"""The documentation page, its files, and its examples."""

import re

from fastapi.testclient import TestClient


def test_the_page_loads_nothing_from_elsewhere(steady: TestClient) -> None:
    page = steady.get("/docs")

    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(addresses) == 3
    for address in addresses:
        assert address.startswith("/docs/assets/")
        assert steady.get(address).status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_the_root_leads_to_the_documentation(steady: TestClient) -> None:
    assert steady.get("/", follow_redirects=False).headers["location"] == "/docs"
