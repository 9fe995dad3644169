import torch


class Net(torch.nn.Module):
    def forward(self, ids):
        hashes: list[int] = []
        for i in range(ids.size(0)):
            hashed = int(ids[i]) * 2654435761 * 40503
            hashes.append(hashed % 1021)
        return torch.tensor(hashes)


class Rolling(torch.nn.Module):
    def forward(self, ids):
        rolled = 7
        for i in range(ids.size(0)):
            rolled = rolled * 31
            if i > 0:
                rolled += int(ids[i])
        return ids + rolled % 1021


class Listed(torch.nn.Module):
    def forward(self, ids):
        hashed = 7
        listed: list[int] = ids.tolist()
        for each in listed:
            hashed = (hashed + each) * 31
        return ids + hashed % 1021


class OfSizes(torch.nn.Module):
    def forward(self, ids):
        return ids.reshape(ids.size(0) * 1) + int(ids[0]) * 0.5
