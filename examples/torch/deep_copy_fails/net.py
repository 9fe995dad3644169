import threading

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        with self.lock:
            return self.linear(x)
