"""Have a live model traced by the service, wait for the verdict, and ask what is served."""

import torch
from net import Net

import tracehouse

model = Net().eval()
trace = tracehouse.Client().trace(model, torch.randn(1, 2))
result = trace.result()  # waits until the trace has ended
print(result.verdict, result.model)

x = torch.randn(3, 2)
print(torch.allclose(trace.infer(x), model(x)))
