import pytest

from service.domain.errors import ArtifactNotFound
from tests.conftest import TENANT


def test_an_artifact_that_is_not_there_is_named(store):
    with pytest.raises(ArtifactNotFound) as raised:
        store.artifacts.get(TENANT, "sha256:0")

    assert raised.value.facts == {"digest": "sha256:0"}
