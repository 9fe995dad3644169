"""`import tracehouse`: light, and `tracehouse.check` is a package that can be called, whatever was imported first."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "httpx", "fastapi", "sqlalchemy", "numpy", "pydantic", "service", "workers")


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_client_is_loaded_when_it_is_asked_for_and_loads_no_torch() -> None:
    program = """
import sys, tracehouse
before = "httpx" in sys.modules
client, asynchronous = tracehouse.Client("http://127.0.0.1:9"), tracehouse.AsyncClient
print(before, [one for one in ("torch", "cloudpickle", "service", "fastapi", "tracehouse.check") if one in sys.modules])
"""
    assert run(program) == "False []"


@pytest.mark.parametrize("program", ["import tracehouse", "import tracehouse; tracehouse.check; dir(tracehouse)"])
def test_importing_the_library_loads_neither_torch_nor_the_service(program: str) -> None:
    assert run(f"{program}; import sys; print([one for one in {HEAVY!r} if one in sys.modules])") == "[]"


@pytest.mark.parametrize(
    "imports",
    [
        "import tracehouse",
        "import tracehouse, tracehouse.check.time_limit",
        "import tracehouse.check.time_limit; import tracehouse",
        "from tracehouse import check; import tracehouse",
        "from tracehouse.check import time_limit; import tracehouse",
    ],
)
def test_check_is_callable_and_a_package_in_every_order_of_imports(imports: str) -> None:
    program = f"""
{imports}
from tracehouse.check.time_limit import TooSlow
print(callable(tracehouse.check), tracehouse.check.time_limit.TooSlow is TooSlow)
"""
    assert run(program) == "True True"


def test_check_runs_after_one_of_its_modules_was_imported() -> None:
    program = """
from tracehouse.check import pipeline
import tracehouse, torch
print(tracehouse.check(torch.relu, torch.ones(2), budget_s=0.5).verdict.value)
"""
    assert run(program) == "verified"


def test_the_signature_of_check_is_the_functions() -> None:
    assert "example_inputs" in run("import inspect, tracehouse; print(inspect.signature(tracehouse.check))")


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert run("import tracehouse; print(hasattr(tracehouse, 'nothing'))") == "False"
