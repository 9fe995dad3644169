"""What torch can do on this machine, asked of a child: parents never load it."""

import time

from service.domain.errors import SandboxUnavailable
from service.sandbox.channel import ChannelClosed
from service.sandbox.limits import Limits
from service.sandbox.tiers import Tier
from service.sandbox.zygote import Zygote, ZygoteFailed
from tracehouse.frozen import Frozen

_PROGRAM = "workers.programs.doctor"
_ANSWER_S = 60.0


class NoGpu(Exception):
    """The text says why no child can compute on a GPU here, and what to do."""


class TorchHere(Frozen):
    """`devices` as torch names them; `traces`: it traced a small model."""

    torch: str
    devices: list[str]
    traces: bool

    @property
    def has_gpu(self) -> bool:
        return any(device.startswith("cuda") for device in self.devices)


def ask(tier: Tier, limits: Limits) -> TorchHere:
    """Takes as long as torch takes to load. Raises ZygoteFailed, SandboxUnavailable, ChannelClosed and TimeoutError."""
    with Zygote([_PROGRAM], tier=tier) as zygote, zygote.fork(_PROGRAM, limits) as child:
        found, _ = child.channel.receive(until=time.monotonic() + _ANSWER_S)
        return TorchHere.model_validate(found)


def require_gpu(tier: Tier, limits: Limits) -> None:
    """Raises NoGpu where the children of this tier could not use one."""
    if tier.confines:
        raise NoGpu(
            f"GPU_SLOTS needs SANDBOX={Tier.NONE.value}, for no jail here lets CUDA in: whatever is submitted can then "
            "do what you can. With GPU_SLOTS=0, trace requests that ask for cuda wait."
        )
    try:
        found = ask(tier, limits)
    except (ZygoteFailed, SandboxUnavailable, ChannelClosed, TimeoutError) as error:
        raise NoGpu(f"GPU_SLOTS is set, and torch could not be asked for a GPU: {error}") from error
    if not found.has_gpu:
        raise NoGpu(f"GPU_SLOTS is set, and torch {found.torch} finds no GPU here. Let it be 0.")
