"""What pyarrow imports for itself: pandas not at all, functions and masked arrays when used.

The first array that pyarrow makes of Python values imports pandas, where that is installed, to tell
pandas' arrays from others. That takes as long as all the rest of a short run. pyarrow looks once
only: where it looks in vain it goes on without. Whoever wants pandas still imports it, as Spark
does, and pyarrow's own conversions to pandas then look for it again.

pyarrow.compute makes its hundreds of functions, with their documentation, when it is imported,
which takes a tenth of a short run; some commands call none of them, others a few, and nobody here
reads the documentation, whose making is half of it. So each is made when it is asked for. pyarrow
asks numpy.ma of each array whether it is masked, and imports that for the question.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from threading import RLock
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

_COMPUTE = "pyarrow.compute"
_MASKED = "numpy.ma"
_DOCUMENTATION = "pyarrow.vendored.docscrape"


class _NoPandas:
    """Finds that there is no pandas, and leaves all else to the finders behind it."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> None:
        """Raises: ModuleNotFoundError, for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)


def leave_pandas_out() -> None:
    """Have pyarrow look for pandas now, and find none: before its first array of Python values.

    Where pandas is imported already nothing is lost with it, and nothing changes.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0], pa.int8())  # of a type: to find one it would import dateutil
    finally:
        sys.meta_path.remove(_NoPandas)


class _Later(ModuleType):
    """Stands for a module until one of its members is asked for, in whichever thread."""

    def __init__(self, name: str, **members: object) -> None:
        super().__init__(name)
        self.__dict__.update(_name=name, _turn=RLock())
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        with self.__dict__["_turn"]:
            own = self.__dict__["_name"]
            sys.meta_path.insert(0, _FewFunctionsFinder)
            try:
                if sys.modules.get(own) is self:
                    del sys.modules[own]
                module = import_module(own)
            finally:
                sys.meta_path.remove(_FewFunctionsFinder)
            self.__dict__.update(vars(module))
        return getattr(module, name)


class _NoSections:
    """Stands for the documentation of a function's options, taken apart: none of it."""

    def __init__(self, _text: str) -> None:
        pass

    def __getitem__(self, _section: str) -> Sequence[object]:
        return ()


@contextmanager
def _undocumented() -> Iterator[None]:
    """Keep pyarrow.compute from taking the documentation of all options apart."""
    if _DOCUMENTATION in sys.modules:
        yield
        return
    stand_in = ModuleType(_DOCUMENTATION)
    stand_in.__dict__["NumpyDocString"] = _NoSections
    sys.modules[_DOCUMENTATION] = stand_in
    try:
        yield
    finally:
        del sys.modules[_DOCUMENTATION]


class _FewFunctionsFinder:
    """Finds pyarrow.compute, to be loaded by _FewFunctionsLoader."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        """Find it as it is found otherwise; nothing else."""
        spec: Any = PathFinder.find_spec(name, path, target) if name == _COMPUTE else None
        if spec is not None:
            spec.loader = _FewFunctionsLoader(spec.loader)
        return spec


class _FewFunctionsLoader:
    """Loads pyarrow.compute, which makes those functions alone that its own code names.

    The others are made when they are asked for. All is in place when the import ends, which other
    threads wait for.
    """

    def __init__(self, own: Any) -> None:
        self._own = own

    def create_module(self, _spec: object) -> None:
        """Have a module made as usual."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the code of pyarrow.compute."""
        engine: Any = import_module("pyarrow._compute")
        registry = engine.function_registry
        every = frozenset(registry().list_functions())
        code = self._own.get_code(_COMPUTE)
        named = _names_in(code)
        is_known = "_wrap_function" in named  # else another pyarrow makes all of its functions
        first = sorted(every & named if is_known else every)

        def make(name: str) -> object:
            """Raises: AttributeError, where there is no such function."""
            own = name.removesuffix("_")  # where it is a word of Python's
            if own not in every:
                raise AttributeError(f"module {_COMPUTE!r} has no attribute {name!r}")
            made = vars(module)["_wrap_function"](name, registry().get_function(own))
            setattr(module, name, made)
            return made

        engine.function_registry = lambda: _FewFunctions(registry(), first)
        try:
            with _undocumented():
                exec(code, vars(module))  # noqa: S102 - as its own loader does
        finally:
            engine.function_registry = registry
        vars(module).update(function_registry=registry, __getattr__=make)


class _FewFunctions:
    """Arrow's functions, of which it lists only some."""

    def __init__(self, registry: Any, names: Sequence[str]) -> None:
        self._registry, self._names = registry, names

    def list_functions(self) -> Sequence[str]:
        """Name them."""
        return self._names

    def get_function(self, name: str) -> Any:
        """Find any of them."""
        return self._registry.get_function(name)


def _names_in(whole: CodeType) -> frozenset[str]:
    """Return the names and texts in the code of a module."""
    codes, found = [whole], set[str]()
    while codes:
        code = codes.pop()
        found.update(code.co_names)
        found.update(one for one in code.co_consts if isinstance(one, str))
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    return frozenset(found)


def import_compute_later() -> None:
    """Have `import pyarrow.compute` give a stand-in, which imports it when it is used."""
    sys.modules.setdefault(_COMPUTE, _Later(_COMPUTE))


def import_masked_arrays_later() -> None:
    """Have `numpy.ma` be a stand-in, which imports it when more is asked of it than pyarrow asks.

    That is whether an array is a masked one: none is before numpy.ma is there.
    """
    if _MASKED not in sys.modules:
        stand_in = _Later(_MASKED, MaskedArray=_MaskedArray)
        sys.modules[_MASKED] = stand_in
        np.ma = stand_in


class _MaskedArrays(type):
    """Tells what is a masked array, also after numpy.ma was imported."""

    def __instancecheck__(cls, array: object) -> bool:
        # While another thread imports numpy.ma the module has no such class yet, nor has anybody
        # an array of it.
        loaded = getattr(sys.modules.get(_MASKED), "MaskedArray", cls)
        return loaded is not cls and isinstance(array, loaded)


class _MaskedArray(metaclass=_MaskedArrays):
    """Stands for the class of masked arrays until numpy.ma is imported."""
