"""Stubs for missing packages that a request names in `stub_missing`: they can be imported, and not used.

While the body of a module runs, a stub can be called, subclassed, used as a decorator and in annotations. All of that
gives further stubs. What a stub decorates becomes a stub too: without the real decorator it might answer otherwise.
Once the body has run, every use raises StubUsed.
"""

import sys
from collections.abc import Collection, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, FunctionType, ModuleType
from typing import Any, NoReturn

from tracehouse.introspection import user_lines

# What no stub can do, not even in the body of a module: it would decide there what the module does.
_DECIDING = """
    abs add aenter aiter and anext await bool bytes ceil complex contains delitem divmod enter exit float floor floordiv
    format ge gt iadd iand ifloordiv ilshift imatmul imod imul index instancecheck int invert ior ipow irshift isub iter
    itruediv ixor le len lshift lt matmul mod mul neg next pos pow radd rand rdivmod reversed rfloordiv rlshift rmatmul
    rmod rmul round rpow rrshift rshift rsub rtruediv rxor sub subclasscheck truediv trunc xor
""".split()


class StubUsed(BaseException):
    """A stub was used.

    This is no Exception: a model that catches all of these must not go on without the package, and answer otherwise.
    """

    def __init__(self, package: str, what: str) -> None:
        super().__init__(
            f"{what} was used, and {package} is not installed: `stub_missing` lets the source import it, not use it"
        )
        self.package = package
        _uses.append(self)


_uses: list[StubUsed] = []  # that `take_use` has not returned yet


def take_use() -> StubUsed | None:
    """Return the first use since the last call, also one that a bare `except` of the submitted code caught."""
    first = _uses[0] if _uses else None
    _uses.clear()
    return first


class Stub:
    """Something of a stubbed package, under the name by which messages call it."""

    __slots__ = ("_stub_name", "_stub_package")

    _stub_name: str
    _stub_package: str

    def __init__(self, package: str, name: str) -> None:
        object.__setattr__(self, "_stub_package", package)
        object.__setattr__(self, "_stub_name", name)

    def __getattr__(self, name: str) -> "Stub":
        return _attribute_of(self._stub_package, self._stub_name, name)

    def __call__(self, *args: Any, **kwargs: Any) -> "Stub":
        if not _is_importing(sys._getframe(1)):
            _refuse(self)
        if len(args) == 1 and not kwargs and isinstance(args[0], type | FunctionType):
            return Stub(self._stub_package, f"{args[0].__qualname__!r}, which {self._stub_name} decorates,")
        return Stub(self._stub_package, f"{self._stub_name}()")

    def __getitem__(self, _: Any) -> "Stub":
        return self._in_import()

    def __or__(self, _: Any) -> "Stub":
        return self._in_import()

    __ror__ = __or__

    def __setattr__(self, _: str, __: Any) -> None:
        self._in_import()

    def __setitem__(self, _: Any, __: Any) -> None:
        self._in_import()

    def __eq__(self, other: object) -> bool:
        if user_lines.is_user(sys._getframe(1).f_code.co_filename):
            _refuse(self)
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{self._stub_name}, a stub>"

    def __copy__(self) -> "Stub":
        return self

    def __deepcopy__(self, _: Any) -> "Stub":
        return self

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        return (type("StubbedBase", (StubbedBase,), {"_stub": self}),)

    def _in_import(self) -> "Stub":
        if not _is_importing(sys._getframe(2)):
            _refuse(self)
        return self


def _refuse(stub: Stub, *_: Any, **__: Any) -> NoReturn:
    raise StubUsed(stub._stub_package, stub._stub_name)


for _name in _DECIDING:
    setattr(Stub, f"__{_name}__", _refuse)


class StubbedBase:
    """What stands for a base class of a stubbed package. Its subclasses can be defined; none can be made."""

    _stub: Stub

    def __init_subclass__(cls, **_: Any) -> None:
        super().__init_subclass__()

    def __new__(cls, *_: Any, **__: Any) -> Any:
        stub = Stub(cls._stub._stub_package, f"{cls.__qualname__!r}, a subclass of {cls._stub._stub_name},")
        return stub if _is_importing(sys._getframe(1)) else _refuse(stub)


class StubModule(ModuleType):
    """A module of a stubbed package. A function that is imported while a model runs is one, too."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise StubUsed(self.__name__.partition(".")[0], self.__name__)

    def __getattr__(self, name: str) -> Stub:
        return _attribute_of(self.__name__.partition(".")[0], self.__name__, name)


class StubbedPackages(MetaPathFinder, Loader):
    """Finds the named packages, and all modules in them, where nothing else finds a package of the name."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    @property
    def imported(self) -> list[str]:
        """The packages that were imported as stubs."""
        return sorted(name for name in self._names if type(sys.modules.get(name)) is StubModule)

    def install(self) -> None:
        _uses.clear()
        sys.meta_path.append(self)

    def uninstall(self) -> None:
        """Undo `install`; the stubs are forgotten."""
        sys.meta_path.remove(self)
        for name in [name for name, module in sys.modules.items() if type(module) is StubModule]:
            del sys.modules[name]

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        package, _, inner = fullname.partition(".")
        if package not in self._names or (inner and type(sys.modules.get(package)) is not StubModule):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty."""


def refuse_stub(value: object) -> None:
    """Raise StubUsed for a stub, or for a class that a stub is a base of."""
    if isinstance(value, Stub):
        _refuse(value)
    if isinstance(value, type) and issubclass(value, StubbedBase):
        _refuse(Stub(value._stub._stub_package, f"{value.__qualname__!r}, a subclass of {value._stub._stub_name},"))


def _attribute_of(package: str, owner: str, name: str) -> Stub:
    frame = sys._getframe(2)
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(f"{owner} is a stub, and has no {name}: {package} is not installed here")
    stub = Stub(package, f"{owner}.{name}")
    if _is_importing(frame):
        return stub
    if user_lines.is_user(frame.f_code.co_filename):
        _refuse(stub)
    raise AttributeError(f"{owner} is a stub, and has no {name}")  # torch and Python look for marks of their own


def _is_importing(frame: FrameType | None) -> bool:
    """Whether the frame is the body of a module that is being imported, or was called from one."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and getattr(frame.f_globals.get("__spec__"), "_initializing", False):
            return True
        frame = frame.f_back
    return False
