"""The next release, made of this one: a migration more, and members more in what is submitted and in contracts."""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
REVISION = "9999"
# A release of the same kind as most: it adds a column, and members that its predecessor cannot read.
_MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

import migrations

revision = "{REVISION}"
down_revision = max(path.name[:4] for path in migrations.HERE.glob("versions/0*.py"))
adds_only = True


def upgrade():
    op.add_column("trace_requests", sa.Column("note", sa.Text))
"""
# Members, each after the lines that stand before it in its file.
Added = Mapping[str, tuple[str, str]]
CLAUSE: Added = {
    "tracehouse/spec/trace_spec.py": ("    weights: Weights | None = None\n", "    note: str | None = None\n"),
    "tracehouse/contract/contract.py": ("    open: bool = False\n", "    clause: str | None = None\n"),
}


PROMOTION: Added = {"service/domain/promotion.py": ("    reason: str\n", "    added: str | None = None\n")}


def make_next_release(directory: Path, added: Added) -> Path:
    """Make its packages and an environment with them in the directory, and return its `tracehouse`."""
    packages = directory / "packages"
    for name in ("service", "workers", "migrations", "tracehouse"):
        shutil.copytree(ROOT / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "migrations" / "versions" / f"{REVISION}_next.py").write_text(_MIGRATION)
    for file, (before, member) in added.items():
        text = (packages / file).read_text()
        assert before in text
        (packages / file).write_text(text.replace(before, before + member, 1))
    return _make_environment(directory / "environment", packages)


def _make_environment(environment: Path, packages: Path) -> Path:
    """Make an environment with these packages, and those of this process but for its own release."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    [site_packages] = environment.glob("lib/python*/site-packages")
    (site_packages / "next_release.pth").write_text(f"{packages}\n{sysconfig.get_path('purelib')}\n")
    program = environment / "bin" / "tracehouse"
    program.write_text(
        f"#!{environment}/bin/python\nfrom service.cli import main\nif __name__ == '__main__':\n    main()\n"
    )
    program.chmod(0o755)
    return program
