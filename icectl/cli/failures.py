"""Messages and exit codes for all errors that end a run."""

import errno
import re
import signal
from collections.abc import Callable, Sequence
from shlex import join

from icectl.cli.signals import Terminated
from icectl.errors import NO_TABLE, CorruptTable, IcectlError, StorageError, TableNotFound

_READING = ("inspect", "validate")
"""Commands that take a single metadata file for a table."""


def error_and_code(raised: BaseException) -> tuple[IcectlError, int]:
    """Find the error to tell, and the exit code, for whatever ended the run."""
    if isinstance(raised, IcectlError):
        return raised, raised.exit_code
    if isinstance(raised, KeyboardInterrupt):
        return IcectlError("interrupted", id="interrupted"), 128 + signal.SIGINT
    if isinstance(raised, Terminated):
        return IcectlError("terminated", id="terminated"), 128 + signal.SIGTERM
    if isinstance(raised, MemoryError):
        hint = "a lower `--concurrency` needs less memory"
        return IcectlError("out of memory", hint=hint, id="out-of-memory"), 1
    if isinstance(raised, OSError):
        return _system_error(raised), StorageError.exit_code
    message = f"unexpected failure: {type(raised).__name__}: {raised}"
    hint = "this is a bug in icectl; please report it with the lines above"
    return IcectlError(message, hint=hint, id="bug"), 1


def with_command(hint: str, command: str) -> str:
    """Return a hint that names the command that was run."""
    return hint.replace("`icectl COMMAND ", f"`icectl {command} ")


def with_table(hint: str, table: str) -> str:
    """Return a hint whose commands name the table; those that only read may name one file."""
    from icectl.cli.naming import changed_in_hints  # runs that end well need no hint

    def named(match: re.Match[str]) -> str:
        words = (table,) if match[2] in _READING else changed_in_hints(table)
        return f"{match[1]} {join(words)}"

    return re.sub(r"(`icectl ([a-z0-9-]+)) TABLE\b", named, hint)


def recovery_hint(
    error: IcectlError,
    recovery_hints: Sequence[Callable[[CorruptTable], str | None]],
    table: str | None,
) -> str | None:
    """Return the hint of an error, made from what is whole of the table, with the table's name."""
    hint = error.hint
    if isinstance(error, CorruptTable):
        for better in recovery_hints:
            hint = better(error)
    is_named = not isinstance(error, TableNotFound) and error.error_id != NO_TABLE
    return with_table(hint, table) if hint is not None and table is not None and is_named else hint


def _system_error(raised: OSError) -> StorageError:
    where = f" `{raised.filename}`" if raised.filename else ""
    if isinstance(raised, FileNotFoundError):
        hint = "`icectl validate TABLE` lists every missing file"
        return StorageError(f"the file{where} is missing" if where else f"{raised}", hint=hint)
    if raised.errno in {errno.ENOSPC, errno.EDQUOT}:
        hint = "free some space where the output is written; the table is not affected"
        hint = "choose another folder with `--temp-dir`" if where else hint
        return StorageError(f"no space left on the device{where and ' of' + where}", hint=hint)
    return StorageError(f"{(raised.strerror or str(raised)).lower()}{where and ':' + where}")
