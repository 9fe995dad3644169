import torch


class Net(torch.nn.Module):
    words: dict[str, int]

    def __init__(self, words):
        super().__init__()
        self.words = words
        self.number = 10

    def forward(self, x):
        return x * self.words["hi"] + self.number
