"""Convert pyarrow's errors on a file to icectl's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from icectl.errors import CorruptTable, Unsupported
from icectl.format.rule import RESTORE

_BEYOND_PYARROW = (
    "Not yet implemented", "Logical type", "encrypt", "decrypt", "not supported",
    "out of range for nanosecond", "too deeply nested",
)  # fmt: skip
"""What messages of pyarrow say, in one class with damage, of things that it can't read."""


@contextmanager
def reading_data_file(kind: str, rule: str = "R-099") -> Iterator[None]:
    """Read a file of a kind inside.

    Raises: CorruptTable by the rule on damage; Unsupported, for what pyarrow can't read. Errors of
    the file object itself pass.
    """
    try:
        yield
    except (pa.ArrowNotImplementedError, pa.ArrowCapacityError) as error:
        raise unsupported_data_file(kind, error) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        # pyarrow's own OSError is a bare one; those of files have a number or a class.
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
            raise
        if any(text in str(error) for text in _BEYOND_PYARROW):
            raise unsupported_data_file(kind, error) from error
        raise damaged_data_file(kind, error, rule) from error


def damaged_data_file(kind: str, why: object, rule: str = "R-099") -> CorruptTable:
    """Return the error for a file whose bytes are not what its format says."""
    message = f"the {kind} file is damaged: {first_line(why)}"
    return CorruptTable(message, rule=rule, hint=RESTORE)


def unsupported_data_file(kind: str, why: object) -> Unsupported:
    """Return the error for a data file that uses what this program can't read."""
    return Unsupported(f"the {kind} file can't be read: {first_line(why)}")


def first_line(why: object) -> str:
    """Return what an error of pyarrow says, without the places in its source."""
    return str(why).partition("\n")[0].strip().removesuffix(".")
