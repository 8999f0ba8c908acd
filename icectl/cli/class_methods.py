"""The methods of dataclasses, compiled when they are first called.

The standard library writes the source of six methods for each class and compiles it when the class
is made, half a millisecond together. A short run makes a hundred and fifty classes, of which it
calls a third of the methods: that was a fifth of its time.

Pythons that compile all methods of a class together are left as they are.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

Method = Callable[..., Any]


def compile_methods_later() -> None:
    """Have every class that becomes a dataclass from now on compile its methods when called."""
    compile_now: Callable[..., Method] | None = getattr(dataclasses, "_create_fn", None)
    if compile_now is None:
        return

    def create(name: str, args: Sequence[str], body: Sequence[str], **names: Any) -> Method:
        return _compiled_later(name, lambda: compile_now(name, args, body, **names))

    dataclasses._create_fn = create  # type: ignore[attr-defined]  # noqa: SLF001


def _compiled_later(name: str, compile_now: Callable[[], Method]) -> Method:
    """Stand for a method, and put it in its own place in the class with the first call."""
    compiled: list[Method] = []

    def method(self: Any, /, *args: Any, **named: Any) -> Any:
        if not compiled:
            compiled.append(_named_as(method, compile_now()))
            for owner in type(self).__mro__:
                if vars(owner).get(name) is method:
                    setattr(owner, name, compiled[0])
        return compiled[0](self, *args, **named)

    method.__name__ = name
    return method


def _named_as(stand_in: Method, method: Method) -> Method:
    method.__qualname__ = stand_in.__qualname__  # which messages tell
    return method
