"""The packages that the models here import, loaded once by the process that all others fork from.

Give this file as the setting PRELOAD, and a trace request no longer waits for them.
"""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).with_name("torchvision_operators.py")))

import timm  # noqa: E402, F401
from transformers import BertConfig, BertModel  # noqa: E402, F401
