"""A parent for a test to kill: it starts children in the tier that it is told, prints all pids, and waits."""

import json
import signal
import sys
from pathlib import Path

from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote

LIMITS = Limits(address_space_mib=4096, cpu_s=600)

tier = Tier(sys.argv[1])
zygote = Zygote(["programs.echo", "programs.multiplies"], tier=tier, path=[Path(__file__).parent])
echoing = zygote.fork("programs.echo", LIMITS)
its_zygote = int(Path(f"/proc/{echoing.pid}/stat").read_text().rpartition(")")[2].split()[1])
pids = [its_zygote, echoing.pid]
if not tier.confines:  # elsewhere it could not start what it is to leave behind
    multiplying = zygote.fork("programs.multiplies", LIMITS)
    left, _ = multiplying.channel.receive()
    pids += [multiplying.pid, *left.values()]
print(json.dumps(pids), flush=True)
signal.pause()
