from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from service.domain.environment import Environment
from service.environments.environments import Environments
from tests.environments import add_environment

Add = Callable[..., Environment]


@pytest.fixture
def environments(tmp_path: Path) -> Environments:
    return Environments(tmp_path / "environments")


@pytest.fixture
def add(environments: Environments) -> Add:
    return partial(add_environment, environments)
