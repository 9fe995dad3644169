"""The environment that a model was traced in: extra packages, which the operator of a service installed by name."""

from pydantic import Field

from tracehouse.artifact.blob import DIGEST_PATTERN
from tracehouse.frozen import Frozen
from tracehouse.spec.environment_name import EnvironmentName


class EnvironmentRef(Frozen):
    """One version of an environment."""

    name: EnvironmentName
    digest: str = Field(
        pattern=DIGEST_PATTERN,
        description="The digest of all installed files, the Python version and the torch version: another digest is "
        "another environment, whatever its name.",
    )
