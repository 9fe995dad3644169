"""Whether an environment can be used as the service runs now."""

from service.environments.environments import Environments
from service.environments.usability import fault_of
from service.sandbox.tiers import Tier
from tests.service.environments.conftest import Add


def test_an_environment_is_used_by_what_it_was_made_for(environments: Environments, add: Add) -> None:
    assert fault_of(add("vision"), environments, Tier.LANDLOCK) is None


def test_another_python_or_torch_asks_to_make_it_again(environments: Environments, add: Add) -> None:
    for outdated in (add("vision", torch="1.0"), add("vision", python="2.7")):
        fault = fault_of(outdated, environments, Tier.LANDLOCK)
        assert fault is not None
        assert "tracehouse environments create vision" in fault


def test_where_no_file_can_be_read_no_environment_can_be_used(environments: Environments, add: Add) -> None:
    assert "seccomp" in (fault_of(add("vision"), environments, Tier.SECCOMP) or "")


def test_a_directory_that_other_users_cannot_enter_is_named(environments: Environments, add: Add) -> None:
    vision = add("vision")
    environments.directory.parent.chmod(0o700)

    fault = fault_of(vision, environments, Tier.UIDS)
    assert fault is not None
    assert str(environments.directory.parent) in fault
    assert "chmod o+x" in fault
    assert str(environments.directory) + " " not in fault
