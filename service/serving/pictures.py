"""Pictures: a picture in a request becomes an input. Foreign bytes are decoded only in a process in its jail.

Each picture has a process of its own, which ends with it: what a picture might do there, it does to nobody else.
"""

import time

from pydantic import ValidationError

from service.domain.errors import ProcessLost
from service.protocol.bounds import MESSAGE_MAX_BYTES
from service.protocol.messages import FailureReply
from service.protocol.picture import ReadPicture, from_picture_reader
from service.sandbox.channel import ChannelClosed, MalformedFrame
from service.sandbox.child import Child
from service.sandbox.limits import Limits
from service.sandbox.zygote import Zygote
from service.serving.picture_input import PictureInput
from tracehouse.errors import InferenceTimeout, PictureUnreadable
from tracehouse.frozen import Frozen
from tracehouse.spec.image_reading import PIXELS_MAX
from tracehouse.tensors.tensor import Tensor

PICTURE_READER = "workers.programs.picture_reader"
_LOG_MAX_BYTES = 4000
_EXIT_S = 2.0


class PictureLimits(Frozen):
    """What reading one picture may use."""

    child: Limits
    timeout_s: float


class Pictures:
    """Makes inputs of pictures. It may be used by several threads."""

    def __init__(self, zygote: Zygote, limits: PictureLimits) -> None:
        self._zygote = zygote
        self._limits = limits

    def read(self, picture: bytes, wanted: PictureInput, most_bytes: int) -> Tensor:
        """Return the input, which has at most so many bytes.

        Raises PictureUnreadable, InferenceTimeout, ProcessLost and SandboxUnavailable.
        """
        until = time.monotonic() + self._limits.timeout_s
        form = wanted.format
        pixels_max = PIXELS_MAX if form.size else most_bytes // (form.channels * form.datatype.item_bytes)
        request = ReadPicture(format=form, pixels_max=min(pixels_max, PIXELS_MAX))
        with self._fork(most_bytes) as child:
            try:
                child.channel.send(request.model_dump(mode="json"), picture, until=until)
                header, body = child.channel.receive(until)
                message = from_picture_reader.validate_python(header)
            except TimeoutError:
                limit_s = self._limits.timeout_s
                raise InferenceTimeout(f"the picture was not read within {limit_s:g} s", limit_s=limit_s) from None
            except ChannelClosed:
                raise self._lost(child) from None
            except (MalformedFrame, ValidationError) as error:
                raise PictureUnreadable("what was made of it is no picture, or too large") from error
        if isinstance(message, FailureReply):
            raise PictureUnreadable(message.failure.detail)
        return wanted.tensor(message.shape, memoryview(body))

    def _fork(self, most_bytes: int) -> Child:
        return self._zygote.fork(
            PICTURE_READER,
            self._limits.child,
            profile="infer",
            log_max_bytes=_LOG_MAX_BYTES,
            header_max_bytes=MESSAGE_MAX_BYTES,
            body_max_bytes=most_bytes,
            answers=True,
        )

    def _lost(self, child: Child) -> ProcessLost | PictureUnreadable:
        """Return what it means that the process has ended: it had nothing to do but to read the picture."""
        try:
            ended = child.wait(time.monotonic() + _EXIT_S)
        except TimeoutError:
            ended = None
        if ended is None or ended.with_zygote:
            return ProcessLost("the process that read the picture was lost")
        return PictureUnreadable("the process that decoded it ended before it was done")
