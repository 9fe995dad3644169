"""Environments on the disk: added, replaced, held while they are used, deleted."""

import pytest

from service.domain.errors import EnvironmentGone, EnvironmentNotFound
from service.environments.environments import Environments
from tests.service.environments.conftest import Add


def module_of(environments: Environments, environment) -> str:
    [folder] = environments.packages_of(environment)
    with open(f"{folder}/scales.py") as file:
        return file.read()


def test_environments_are_listed_by_their_names(environments: Environments, add: Add) -> None:
    assert environments.list() == []
    text, vision = add("text"), add("audio")

    assert environments.list() == [vision, text]
    assert environments.find("text") == text


def test_without_an_environment_there_are_no_more_packages(environments: Environments) -> None:
    with environments.hold(None):
        assert environments.packages_of(None) == []


@pytest.mark.parametrize("name", ["nothing", "..", "", "a/b", "/", "x" * 100])
def test_other_names_are_not_found(environments: Environments, add: Add, name: str) -> None:
    add("vision")

    with pytest.raises(EnvironmentNotFound):
        environments.find(name)


def test_a_replaced_environment_is_gone_for_who_wanted_the_old_one(environments: Environments, add: Add) -> None:
    old = add("vision", "FACTOR = 2")
    new = add("vision", "FACTOR = 3")

    assert environments.find("vision") == new
    assert module_of(environments, new) == "FACTOR = 3"
    with pytest.raises(EnvironmentGone), environments.hold(old):
        pass


def test_a_replaced_environment_stays_while_it_is_used(environments: Environments, add: Add) -> None:
    old = add("vision", "FACTOR = 2")
    with environments.hold(old):
        add("vision", "FACTOR = 3")
        assert module_of(environments, old) == "FACTOR = 2"
    newest = add("vision", "FACTOR = 4")

    assert not environments.folder_of(old).exists()
    assert module_of(environments, newest) == "FACTOR = 4"


def test_a_deleted_environment_is_gone(environments: Environments, add: Add) -> None:
    deleted, kept = add("vision"), add("text")

    assert environments.delete("vision") is True
    assert environments.list() == [kept]
    assert [path.name for path in environments.directory.iterdir()] == ["text"]
    with pytest.raises(EnvironmentGone), environments.hold(deleted):
        pass
    with pytest.raises(EnvironmentNotFound):
        environments.delete("vision")


def test_the_files_of_a_deleted_environment_stay_while_it_is_used(environments: Environments, add: Add) -> None:
    deleted = add("vision", "FACTOR = 2")
    with environments.hold(deleted):
        assert environments.delete("vision") is False
        assert environments.list() == []
        assert module_of(environments, deleted) == "FACTOR = 2"


def test_what_a_killed_process_left_half_made_is_removed(environments: Environments, add: Add) -> None:
    with environments.change():
        half = environments.directory / ".making-half"
        half.mkdir()
    add("vision")

    assert not half.exists()
