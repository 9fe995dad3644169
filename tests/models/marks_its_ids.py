import torch


class Net(torch.nn.Module):
    def forward(self, ids):
        marks = torch.zeros(int(ids.max()) + 1)
        for place in range(3):
            marks[ids[place]] = 1
        return marks
