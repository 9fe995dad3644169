"""Settings come from the environment, and docs/reference/settings.md lists them all."""

from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from service.limits import pool_limits, trace_limits
from service.sandbox.tiers import Tier
from service.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_a_setting_is_its_name_in_capitals() -> None:
    assert Settings.from_environment({"TRACE_SLOTS": "3", "HOME": "/root"}).trace_slots == 3


def test_only_the_form_that_was_verified_answers_unless_the_operator_asks_for_more() -> None:
    assert Settings.from_environment({}).served_forms == "saved"


@pytest.mark.parametrize(
    ("given", "usual"), [({}, 2), ({"RUNNER_THREADS": "measured"}, 2), ({"RUNNER_THREADS": "3"}, 3)]
)
def test_threads_are_measured_unless_a_number_is_set(given: dict[str, str], usual: int) -> None:
    settings = Settings.from_environment(given)
    assert settings.runner_threads == (3 if usual == 3 else "measured")
    assert trace_limits(settings).threads == usual


@pytest.mark.parametrize(
    ("given", "usual"), [({}, 1), ({"RUNNER_REPLICAS": "measured"}, 1), ({"RUNNER_REPLICAS": "3"}, 3)]
)
def test_replicas_are_measured_unless_a_number_is_set(given: dict[str, str], usual: int) -> None:
    settings = Settings.from_environment(given)
    assert settings.runner_replicas == (3 if usual == 3 else "measured")
    assert pool_limits(settings).replicas == usual


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRACE_SLOTS", "0"),
        ("TRACE_WALL_S", "soon"),
        ("LOG_LEVEL", "LOUD"),
        ("PRELOAD", "/no/such/file.py"),
        ("API_KEYS", "off"),
        ("SERVED_FORMS", "fastest"),
        ("RUNNER_THREADS", "few"),
        ("RUNNER_THREADS", "0"),
        ("RUNNER_REPLICAS", "many"),
        ("RUNNER_REPLICAS", "0"),
        ("CORS_ORIGINS", "*"),
        ("CORS_ORIGINS", "https://page.example/"),
        ("CORS_ORIGINS", "page.example"),
        ("CORS_ORIGINS", "https://*.example"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings.from_environment({name: value})
    assert {error["loc"][0] for error in refused.value.errors()} == {name.lower()}


@pytest.mark.parametrize(
    ("given", "origins"),
    [
        ("https://page.example, http://localhost:3000", ("https://page.example", "http://localhost:3000")),
        ("http://[::1]:8080", ("http://[::1]:8080",)),
        ("", ()),
    ],
)
def test_origins_stand_between_commas(given: str, origins: tuple[str, ...]) -> None:
    assert Settings.from_environment({"CORS_ORIGINS": given}).cors_origins == origins


def test_the_password_of_the_database_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@ss:w/rd%\n")
    environment = {"DATABASE_PASSWORD_FILE": str(file), "DATABASE_URL": "postgresql://tracehouse@db/tracehouse"}

    settings = Settings.from_environment(environment)

    assert settings.database == "postgresql://tracehouse:p%40ss%3Aw%2Frd%25@db/tracehouse"
    assert "p@ss" not in repr(settings)


@pytest.mark.parametrize("url", ["postgresql://db/tracehouse", "postgresql://tracehouse:secret@db/tracehouse", None])
def test_a_password_that_has_no_place_in_the_url_is_refused(url: str | None, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret")

    with pytest.raises(ValidationError, match="DATABASE_URL needs a user, and no password"):
        Settings.from_environment({"DATABASE_PASSWORD_FILE": str(file)} | ({"DATABASE_URL": url} if url else {}))


def test_a_file_without_a_password_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("\n")

    with pytest.raises(ValidationError, match="is empty"):
        Settings.from_environment(
            {"DATABASE_PASSWORD_FILE": str(file), "DATABASE_URL": "postgresql://me@db/tracehouse"}
        )


def test_the_embedded_default_lives_in_the_state_directory(tmp_path: Path) -> None:
    settings = Settings.from_environment({"STATE_DIR": str(tmp_path)})
    assert settings.database == f"sqlite:///{tmp_path}/tracehouse.db"
    assert settings.blobs == f"file://{tmp_path}/blobs"


def test_every_tier_of_the_sandbox_can_be_asked_for() -> None:
    assert get_args(Settings.model_fields["sandbox"].annotation) == ("auto", *Tier)


@pytest.mark.parametrize(
    ("given", "walls"),
    [
        ({}, {"quick": 200, "normal": 600, "deep": 1800}),
        ({"TRACE_WALL_S": "60"}, {"quick": 20, "normal": 60, "deep": 180}),
        (
            {"TRACE_WALL_QUICK_S": "120", "TRACE_WALL_DEEP_S": "900"},
            {"quick": 120, "normal": 600, "deep": 900},
        ),
    ],
)
def test_each_budget_of_a_check_has_a_time_for_the_whole_trace(given: dict[str, str], walls: dict[str, float]) -> None:
    assert trace_limits(Settings.from_environment(given)).walls == walls


def test_the_reference_lists_every_setting() -> None:
    rows = ["| variable | default | |", "| --- | --- | --- |"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{field.default}`"
        rows.append(f"| `{name.upper()}` | {default} | {field.description} |")
    assert "\n".join(rows) in PAGE.read_text()
