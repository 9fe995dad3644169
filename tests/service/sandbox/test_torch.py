"""What the zygote is for: torch, imported once, works in every child."""

import os

from service.sandbox.limits import Limits

LIMITS = Limits(address_space_mib=4096, cpu_s=600)


def test_torch_trains_in_children_under_limits(torch_zygote, until):
    for _ in range(5):
        with torch_zygote.fork("programs.convolves", LIMITS) as child:
            answer, _ = child.channel.receive(until)
            assert answer["shape"] == [8, 3, 3, 3]
            assert answer["finite"]
            assert child.wait(until).code == 0


def test_children_begin_with_one_thread(torch_zygote, until):
    with torch_zygote.fork("programs.echo", LIMITS) as child:
        assert len(os.listdir(f"/proc/{child.pid}/task")) == 1
