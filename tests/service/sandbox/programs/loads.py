"""Imported for its effect: torch, and one file of each kind loaded, as what every child is forked from does."""

import io

import torch
from attacks.archives import HONEST, scripted

torch.set_num_threads(1)
torch.jit.load(io.BytesIO(scripted(HONEST)), map_location="cpu").forward()
weights = io.BytesIO()
torch.save({"weight": torch.zeros(1)}, weights)
weights.seek(0)
_ = repr(torch.load(weights, weights_only=False))
