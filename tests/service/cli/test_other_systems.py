"""Commands that only talk to a service run where there is no jail, such as on macOS."""

import subprocess
import sys

# What Python has on Linux alone, of what shared memory is made with.
_WITHOUT = """
import fcntl, mmap, os
for module, names in ((fcntl, [name for name in dir(fcntl) if "SEAL" in name]), (mmap, ["MADV_REMOVE"]),
                      (os, ["memfd_create", "MFD_CLOEXEC", "MFD_ALLOW_SEALING", "posix_fallocate"])):
    for name in names:
        delattr(module, name)
"""


def test_the_command_starts_where_python_lacks_what_linux_has() -> None:
    asked = _WITHOUT + "import service.cli; service.cli.app(['--help'])"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Usage:" in ran.stdout
