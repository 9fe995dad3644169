"""Environments that are made without pip: each has one module, `scales`."""

from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version

from service.domain.environment import Environment, EnvironmentPackage, python_release
from service.environments.environments import Environments


def add_environment(environments: Environments, name: str, text: str = "", **fields: str) -> Environment:
    """Add an environment whose module has this text."""
    made_for = {"python": python_release(), "torch": version("torch")} | fields
    environment = Environment(
        name=name,
        digest="sha256:" + sha256(text.encode()).hexdigest(),
        created_at=datetime.now(UTC),
        packages=[EnvironmentPackage(name="scales-for-tests", version="1.0", modules=["scales"])],
        **made_for,
    )
    with environments.change(), environments.stage() as staged:
        (staged / "site-packages").mkdir()
        (staged / "site-packages" / "scales.py").write_text(text)
        environments.add(staged, environment)
    return environment
