import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 1)

    def forward(self, x, padding):
        return self.encoder(x, src_key_padding_mask=padding)
