"""A probe of torch on this machine, made in a child, because parents never load torch."""

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
    """No child can use a GPU here. The text says why, and what to do."""


class TorchCapabilities(Frozen):
    """What torch can do here. `devices` have torch's names; `traces`: it traced a small model.

    `torchvision_fault` says why an installed torchvision cannot be imported.
    """

    torch: str
    devices: list[str]
    traces: bool
    torchvision_fault: str | None = None

    @property
    def has_gpu(self) -> bool:
        return any(device.startswith("cuda") for device in self.devices)


def ask(tier: Tier, limits: Limits) -> TorchCapabilities:
    """Ask torch in a child, which takes as long as torch takes to load.

    Raises ZygoteFailed, SandboxUnavailable, ChannelClosed and TimeoutError.
    """
    with Zygote([_PROGRAM], tier=tier) as zygote, zygote.fork(_PROGRAM, limits) as child:
        answer, _ = child.channel.receive(until=time.monotonic() + _ANSWER_S)
        return TorchCapabilities.model_validate(answer)


def require_gpu(tier: Tier, limits: Limits) -> None:
    """Raises NoGpu if the children of this tier cannot use a GPU."""
    if tier.confines:
        raise NoGpu(
            f"GPU_SLOTS needs SANDBOX={Tier.NONE.value}, for no sandbox lets CUDA in: submitted code can then do "
            "what you can. With GPU_SLOTS=0, trace requests that ask for cuda wait."
        )
    try:
        capabilities = ask(tier, limits)
    except (ZygoteFailed, SandboxUnavailable, ChannelClosed, TimeoutError) as error:
        raise NoGpu(f"GPU_SLOTS is set, and torch could not be asked for a GPU: {error}") from error
    if not capabilities.has_gpu:
        raise NoGpu(f"GPU_SLOTS is set, and torch {capabilities.torch} finds no GPU here. Set it to 0.")
