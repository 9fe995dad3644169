from tests.loaded_models import every_datatype, installed, load, pytest_configure

__all__ = ["every_datatype", "installed", "load", "pytest_configure"]
