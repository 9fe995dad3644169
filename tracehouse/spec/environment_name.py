"""Environment names: they follow the grammar of model names, and so are safe as names of folders."""

from tracehouse.spec.model_name import ModelName

EnvironmentName = ModelName
