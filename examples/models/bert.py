"""A small BERT from transformers: `bert:bert`, keyword inputs `input_ids` and `attention_mask`, INT64 [2, 16].

Give it an example whose mask has a zero. A mask of ones alone is one that transformers may leave out, and a trace made
without the mask would ignore every later one.
"""

import torchvision_operators  # noqa: F401  # isort: skip
from transformers import BertConfig, BertModel


def bert() -> BertModel:
    config = BertConfig(
        vocab_size=1000,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=128,
        return_dict=False,  # a tuple: a trace with strict=True refuses a dict
    )
    return BertModel(config)
