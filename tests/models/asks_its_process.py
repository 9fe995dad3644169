"""Models that ask for a setting of their process, and answer by it or only look at it."""

import gc
import locale
import logging
import os
import platform
import resource
import shutil
import socket
import sys
import threading

import numpy as np
import torch

LOG = logging.getLogger(__name__)


def is_crowded():
    return gc.get_count()[2] > 90


QUESTIONS = {
    "Threads": lambda: torch.get_num_threads() > 64,
    "Dtype": lambda: torch.get_default_dtype() is torch.float64,
    "Depth": lambda: sys.getrecursionlimit() > 50_000,
    "Folder": lambda: os.getcwd().endswith("process"),
    "Process": lambda: os.getpid() > 2**22,
    "Processors": lambda: (os.cpu_count() or 1) > 64,
    "Garbage": is_crowded,
    "Collections": lambda: gc.get_stats()[2]["collections"] > 10**6,
    "Parent": lambda: os.getppid() > 2**22,
    "Load": lambda: os.getloadavg()[0] > 99,
    "Others": lambda: threading.active_count() > 90,
    "Precision": lambda: torch.get_float32_matmul_precision() == "medium",
    "Deterministic": lambda: torch.are_deterministic_algorithms_enabled(),
    "Errors": lambda: np.geterr()["over"] == "raise",
    "Host": lambda: socket.gethostname() == "other",
    "Node": lambda: platform.node() == "other",
    "Locale": lambda: locale.setlocale(locale.LC_NUMERIC) == "other",
    "Memory": lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 2**27,
    "Pages": lambda: os.sysconf("SC_AVPHYS_PAGES") == 1,
    "Affinity": lambda: len(os.sched_getaffinity(0)) > 999,
    "Disk": lambda: shutil.disk_usage("/").free == 0,
    "Level": lambda: LOG.getEffectiveLevel() <= logging.DEBUG,
    "Enabled": lambda: LOG.isEnabledFor(logging.DEBUG),
}


class Doubles(torch.nn.Module):
    """Doubles its answers where the setting is another one."""

    def __init__(self, question):
        super().__init__()
        self.question = question

    def forward(self, x):
        return x * (2.0 if QUESTIONS[self.question]() else 1.0)


class Looks(torch.nn.Module):
    """Asks for all settings, and logs what it sees."""

    def forward(self, x):
        for question in QUESTIONS.values():
            question()
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug("the mean is %s", x.mean())
        return x * 2.0


class MakesPositions(torch.nn.Module):
    """Adds positions in the default datatype, which a wider one leaves as they are."""

    def forward(self, x):
        return x + torch.arange(x.shape[1], dtype=torch.get_default_dtype())
