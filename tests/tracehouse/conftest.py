from tests.loaded_models import every_datatype, installed, load, objects_set_aside, pytest_configure

__all__ = ["every_datatype", "installed", "load", "objects_set_aside", "pytest_configure"]
