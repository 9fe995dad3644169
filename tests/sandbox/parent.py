"""A parent for a test to kill: it starts children of both kinds, prints their pids and the zygote's, and waits."""

import json
import signal
from pathlib import Path

from service.sandbox.limits import Limits
from service.sandbox.zygote import Zygote

zygote = Zygote(["programs.looks", "programs.echo", "programs.multiplies"], path=[Path(__file__).parent])
with zygote.fork("programs.looks", Limits(address_space_mib=4096, cpu_s=600)) as looking:
    seen, _ = looking.channel.receive()
echoing = zygote.fork("programs.echo", Limits(address_space_mib=4096, cpu_s=600))
multiplying = zygote.fork("programs.multiplies", Limits(address_space_mib=4096, cpu_s=600))
left, _ = multiplying.channel.receive()
print(json.dumps([seen["zygote"], echoing.pid, multiplying.pid, *left.values()]), flush=True)
signal.pause()
