"""Check two models here and now: no service, no files."""

import torch
from gate import Gate
from net import Net

import tracehouse

print(tracehouse.check(Net().eval(), [torch.randn(1, 2)]))
print(tracehouse.check(Gate().eval(), [torch.ones(1, 4)]))
