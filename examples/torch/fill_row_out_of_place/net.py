import torch


def fill_row_zero(x):
    return torch.cat((torch.zeros(1, *x.shape[1:2]), x[1:]), dim=0)
