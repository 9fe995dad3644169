"""Values and sizes that leave as text, bytes, keys of tables or errors. Few inputs take the other side."""

import contextlib
import ctypes
import hashlib
import json
import logging
import re
import threading

import torch

log = logging.getLogger(__name__)


class AsText(torch.nn.Module):
    NAMES = {"token 901": 2}

    def forward(self, ids):
        return ids * self.NAMES.get(f"token {ids[0].item()}", 1)


class AsTheTextOfATensor(torch.nn.Module):
    def forward(self, ids):
        return ids * 2 if "7777" in repr(ids.sum()) else ids + 1


class AsAFilledInText(torch.nn.Module):
    def forward(self, ids):
        return ids * 2 if "7777" in "the sum is %s" % ids.sum() else ids + 1


class AsBytes(torch.nn.Module):
    def forward(self, ids):
        return ids * 0 if bytes(one % 256 for one in ids.tolist()).startswith(b"hey") else ids + 1


class AsAPattern(torch.nn.Module):
    def forward(self, ids):
        return ids + 1 if re.match("9.1,", ",".join(map(str, ids.tolist()))) is None else ids * 0


class AsAnIndex(torch.nn.Module):
    TABLE = [1] * 5003 + [2] * 7

    def forward(self, ids):
        return ids * self.TABLE[int(ids[0])]


class AsAShiftedNumber(torch.nn.Module):
    def forward(self, ids):
        return ids * (1 + (ids[0].item() >> 21))


class AsAnError(torch.nn.Module):
    def forward(self, ids):
        try:
            1 / (int(ids.sum()) - 911)
        except ZeroDivisionError:
            return ids * 0
        return ids + 1


class AsASuppressedError(torch.nn.Module):
    NAMES = {"901": 2}

    def forward(self, ids):
        factor = 1
        with contextlib.suppress(KeyError):
            factor = self.NAMES[str(ids[0].item())]
        return ids * factor


class InAThread(torch.nn.Module):
    def forward(self, ids):
        found = []
        worker = threading.Thread(target=lambda: found.append(int((ids * 3).max())))
        worker.start()
        worker.join()
        return ids * 0 if str(found[0]) == "2703" else ids + 1


class ByItsAddress(torch.nn.Module):
    def forward(self, ids):
        return ids * 0 if ctypes.c_int64.from_address(ids.data_ptr()).value == 901 else ids + 1


class AsCode(torch.nn.Module):
    def forward(self, ids):
        return ids * 0 if eval(f"{ids[0].item()} * 31 % 1009 == 688") else ids + 1


class AsACount(torch.nn.Module):
    def forward(self, ids):
        steps = 0
        while steps < ids[0].item():
            steps += 1
        return ids * 0 if str(steps) == "901" else ids + 1


class Logged(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lines = []

    def forward(self, ids):
        log.info("ids %s of %d", json.dumps(ids.tolist()), len(ids))
        log.debug(f"digest {hashlib.sha1(repr(ids.tolist()).encode()).hexdigest()} of {ids.shape}")
        self.lines = [*self.lines, f"first {ids[0].item()}"][-10:]
        self.note("largest %d" % ids.max().item())
        return ids + 1

    def note(self, text):
        try:
            print("net: " + text)
        except ValueError:
            log.info("not shown")


class SizeAsText(torch.nn.Module):
    def forward(self, x):
        return -x if f"{[*x.shape]}".endswith("37]") else x


class SizesAsTextOfMap(torch.nn.Module):
    """Texts are made by C code, which no line of the model calls."""

    def forward(self, x):
        return x * {"3x37": 2.0}.get("x".join(map(str, x.shape)), 1.0)


class SizeThatIsMissing(torch.nn.Module):
    TABLE = {37: 2.0}

    def forward(self, x):
        try:
            return x * self.TABLE[x.shape[1]]
        except Exception:
            return x * 1.0


class SizeThatDividesByZero(torch.nn.Module):
    def forward(self, x):
        try:
            1 / (x.shape[1] - 37)
        except ZeroDivisionError:
            return -x
        return x


class SizeThatIsAnInt(torch.nn.Module):
    def forward(self, x):
        return -x if isinstance(x.shape[1], int) and x.shape[1] == 37 else x


class SizeThatIsMatched(torch.nn.Module):
    def forward(self, x):
        match x.shape[1]:
            case int(length) if length == 37:
                return -x
        return x


class SizeThatHasBits(torch.nn.Module):
    def forward(self, x):
        with contextlib.suppress(AttributeError):
            if x.shape[1].bit_length() == 6:
                return -x
        return x


class SizeThatIsLogged(torch.nn.Module):
    def forward(self, x):
        log.info("shape %s, %s wide", x.shape, f"{x.shape[1]:4d}")
        print("shape", str(tuple(x.shape)))
        if x.shape[1] > 4000:
            raise ValueError(f"{x.shape[1]} is too wide")
        return x * 2


class TextWhereItIsLong(torch.nn.Module):
    def forward(self, x):
        top = x.max().item()
        if x.shape[1] > 16 and f"{top:.0f}" == "9":
            return x * 2
        return x


class SlightlyWhereItIsLong(torch.nn.Module):
    """Its sides differ by less than a usual tolerance, and by far more than rounding."""

    def forward(self, x):
        top = x.max().item()
        if x.shape[1] > 16 and f"{top:.0f}" == "9":
            return x * 2.000006
        return x * 2


class LogWhereItIsLong(torch.nn.Module):
    def forward(self, x):
        top = x.max().item()
        if x.shape[1] > 16:
            print("the largest is", f"{top:.0f}")
        return x * 2


@contextlib.contextmanager
def quiet():
    try:
        yield
    except ZeroDivisionError:
        pass


class CaughtByItsOwnContext(torch.nn.Module):
    def forward(self, x):
        scaled = x * 2
        with quiet():
            1 // (int(x.sum().item() * 1000) - 72000)
            scaled = x
        return scaled


class HasAnAttribute(torch.nn.Module):
    def forward(self, x):
        return x * 2 if hasattr(self, f"mode_{x.sum().item():.0f}") else x


class GetsByTheClass(torch.nn.Module):
    def forward(self, x):
        return dict.get({"9.00000": torch.cos}, f"{x.mean().item():.5f}", torch.sin)(x)


class InACallback(torch.nn.Module):
    def forward(self, x):
        found = []
        re.sub(r"9\.000", lambda match: found.append(1) or "", f"{x.sum().item():.3f}")
        return x * 2 if found else x
