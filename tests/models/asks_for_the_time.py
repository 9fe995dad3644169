import time
from datetime import datetime

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        started = time.time()
        return x + started % 7


class Logs(torch.nn.Module):
    def forward(self, x):
        started = time.perf_counter()
        y = x * 2
        print("took", time.perf_counter() - started, datetime.now())
        return y


class Expires(torch.nn.Module):
    def forward(self, x):
        if datetime.now().year > 2035:
            raise ValueError("too old")
        return x * (2 if datetime.now().hour < 12 else 3)


class KnowsTheHour(torch.nn.Module):
    def forward(self, x):
        hour = int(time.clock_gettime(time.CLOCK_REALTIME) // 3600) % 24
        return x * (2 if hour < 12 else 3)


class CountsNanoseconds(torch.nn.Module):
    def forward(self, x):
        return x * (2 if time.clock_gettime_ns(time.CLOCK_REALTIME) < 2_100_000_000_000_000_000 else 3)
