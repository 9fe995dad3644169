"""BERT-base from transformers, 12 layers: `bert_base:bert_base`, `input_ids` and `attention_mask`, INT64 [2, 32]."""

import torchvision_operators  # noqa: F401  # isort: skip
from transformers import BertConfig, BertModel


def bert_base() -> BertModel:
    return BertModel(BertConfig(return_dict=False), add_pooling_layer=False)
