"""Every reply to every request that the OpenAPI document allows, and to many that it forbids, is as documented."""

import os
import subprocess
import sys
from pathlib import Path

from tests.acceptance import schema_media_types
from tests.acceptance.conftest import StartService

ROOT = Path(__file__).parents[2]

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


def test_no_server_error_and_no_undocumented_reply(start_service: StartService, tmp_path: Path) -> None:
    service = start_service()  # of its own: what is asked of it includes quotas under which nothing can be submitted
    run = subprocess.run(
        [
            SCHEMATHESIS,
            *("run", f"{service.address}/openapi.json"),
            *(
                "--checks",
                "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
            ),
            *("--max-examples", "12"),
            *("--seed", "1"),
            *("--workers", "1"),  # with two, ast.parse of Python 3.11 raises SystemError now and then
            *("--exclude-path-regex", "/events$"),
            *("--report", "junit", "--report-dir", str(tmp_path)),
        ],
        env=os.environ | {"SCHEMATHESIS_HOOKS": schema_media_types.__name__, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,  # where no examples of an earlier run wait, which may be of another document
        capture_output=True,
        check=False,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
