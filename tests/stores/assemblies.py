"""Objects that a store puts together of ranges of others and of bytes."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from icectl.storage.store import Assembly, Store


def begun(store: Store, location: str) -> AbstractContextManager[Assembly]:
    """A new object, where the storage copies ranges."""
    assembling = store.assemble(location)
    assert assembling is not None
    return assembling


def assembled(
    store: Store,
    root: str,
    name: str,
    contents: Mapping[str, bytes],
    parts: Iterable[Any],
    *,
    whole: bool = False,
) -> bytes:
    """Assemble an object of bytes and ranges of others, and return what ought to be in it."""
    expected, parts = b"", list(parts)
    with begun(store, f"{root}/{name}") as assembly:
        assert assembly.copies_whole is whole
        for key in dict.fromkeys(part[0] for part in parts if not isinstance(part, bytes)):
            assert assembly.open(f"{root}/{key}").seek(0, 2) == len(contents[key])
        for part in parts:
            if isinstance(part, bytes):
                assembly.write(part)
                expected += part
            else:
                key, start, end = part
                assembly.copy(f"{root}/{key}", start, end)
                expected += contents[key][start:end]
    return expected


def assemble_of_replaced(
    store: Store, root: str, sizes: Mapping[str, int], replace: Callable[[], None], *, read: bool
) -> None:
    """Assemble an object of others, of which the first is replaced before it is read or copied."""
    with begun(store, f"{root}/new") as assembly:
        files = [assembly.open(f"{root}/{key}") for key in sizes]
        replace()
        if read:
            files[0].read(10)
        for key, size in sizes.items():
            assembly.copy(f"{root}/{key}", 0, size)
