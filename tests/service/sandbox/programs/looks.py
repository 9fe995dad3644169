"""Tells what it sees of the world."""

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

from service.sandbox.channel import Channel

PR_GET_PDEATHSIG, PR_GET_DUMPABLE = 2, 3


def main(channel: Channel, files: list[int]) -> None:
    channel.send(
        {
            "environment": dict(os.environ),
            "descriptors": {name: _target(name) for name in os.listdir("/proc/self/fd")},
            "files": [os.read(file, 100).decode() for file in files],
            "zygote": os.getppid(),
            "leads_group": os.getpgid(0) == os.getpid(),
            "umask": os.umask(0),
            "arguments": sys.argv,
            "directory": os.getcwd(),
            "stdin": sys.stdin.read(),
            "dumpable": ctypes.CDLL(None).prctl(PR_GET_DUMPABLE),
            "dies_with_zygote": _death_signal() == signal.SIGKILL,
            "killed_first": int(Path("/proc/self/oom_score_adj").read_text()),
            "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
            "address_space": resource.getrlimit(resource.RLIMIT_AS)[1],
            "cpu": list(resource.getrlimit(resource.RLIMIT_CPU)),
            "file_size": resource.getrlimit(resource.RLIMIT_FSIZE)[1],
            "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            "has_late_module": "programs.late" in sys.modules,
            "threads": len(os.listdir("/proc/self/task")),
        }
    )


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return "gone"  # what listdir itself had open


def _death_signal() -> int:
    death_signal = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(death_signal))
    return death_signal.value
