import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Net(torch.nn.Module):
    """Takes rows in the order of their lengths, none of which is beyond the rows' own."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 5, batch_first=True)

    def forward(self, x, lengths):
        packed, _ = self.lstm(pack_padded_sequence(x, lengths, batch_first=True))
        return pad_packed_sequence(packed, batch_first=True)[0] + x[:, :, :1]
