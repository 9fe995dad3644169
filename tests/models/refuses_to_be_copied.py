import threading

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.lock = threading.Lock()

    def forward(self, x):
        with self.lock:
            return self.layer(x)
