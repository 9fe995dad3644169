import torch


def spectrum(x):
    return torch.fft.rfft(x)
