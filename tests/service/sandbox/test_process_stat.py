"""What the kernel says of a process: its threads and its processor time."""

import subprocess
import sys

from service.sandbox.process_stat import count_threads, processor_s
from tests.conftest import wait_until

THREE_THREADS = """
import sys, threading
for _ in range(2):
    threading.Thread(target=sys.stdin.read, daemon=True).start()
print("started", flush=True)
sys.stdin.read()
"""


def test_threads_of_another_process_are_counted() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", THREE_THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        counted = count_threads(process.pid)
        process.kill()
    assert counted == 3


def test_processor_time_of_another_process_grows_while_it_works() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        wait_until(lambda: processor_s(busy.pid) > 0.1)
        before = processor_s(busy.pid)
        wait_until(lambda: processor_s(busy.pid) > before)
        busy.kill()
    assert before > 0.1


def test_processor_time_is_told_more_finely_than_in_ticks() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        wait_until(lambda: processor_s(busy.pid) > 0)
        told = [processor_s(busy.pid) for _ in range(3)]
        busy.kill()
    assert any(abs(one - round(one, 2)) > 1e-6 for one in told)


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    assert (count_threads(gone.pid), processor_s(gone.pid)) == (0, 0.0)
