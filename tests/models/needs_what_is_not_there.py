import torch
import no_such_package


class Net(torch.nn.Module):
    pass
