"""The options of an erasure, read and checked: of the command line, or of a policy."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from icectl.cli.options import read_options
from icectl.cli.settings import (
    ERASE_KEY_COLUMNS,
    ERASE_KEYS,
    ERASE_REQUESTED_AT,
    ORPHANS_OLDER_THAN,
    ORPHANS_QUARANTINE,
    Layer,
    Settings,
)
from icectl.commands.erase.keys import KeyFile, read_keys
from icectl.commands.erase.options import EraseRequest
from icectl.commands.erase.plan import MAX_FRACTION, ROUNDS, Sought
from icectl.commands.rows.deletion import WantedRows
from icectl.commands.rows.read import condition_ids
from icectl.entries.conditions import parse_where
from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.table.context import TableContext
from icectl.table.live_files import with_dropped_columns


@dataclass(frozen=True, slots=True)
class EraseOptions:
    """The options of an erasure; `sought` reads what is looked for, for a table.

    `keys` are the file or table of keys, if it is these. Orphans with such rows are deleted if
    older than `orphans_older_than`, an age or instant.
    """

    sought: Callable[[TableMetadata], tuple[Sought, WantedRows]]
    keys: KeyFile | None
    expires: bool
    patterns: tuple[str, ...]
    max_fraction: float
    rounds: int
    orphans_older_than: str
    quarantine: str | None
    deletes_versions: bool


def key_file(
    request: EraseRequest, settings: Settings, other: Callable[[str], TableContext] | None
) -> KeyFile | None:
    """Return the keys' file or table; None for a condition. Raises: UsageError."""
    file, names = settings.read(ERASE_KEYS), settings.read(ERASE_KEY_COLUMNS)
    is_option = settings.origin(ERASE_KEYS).layer is Layer.OPTION
    if (request.where is None and file is None) or (request.where is not None and is_option):
        raise UsageError(
            "erase needs either `--where` or `--keys`", hint='as in `--where "user_id = 4711"`'
        )
    if request.where is not None:
        if settings.origin(ERASE_KEY_COLUMNS).layer is Layer.OPTION:
            raise UsageError("`--key-columns` needs `--keys`")
        return None
    assert file is not None
    if not names:
        hint = "`--key-columns user_id` names them"
        raise UsageError("`--keys` needs the columns of the keys", hint=hint)
    asked = settings.read(ERASE_REQUESTED_AT)
    return KeyFile(file, names, asked, is_queue=not is_option, other=other)


def options_of(
    request: EraseRequest,
    settings: Settings,
    now_ms: int,
    files: ExitStack | None = None,
    other: Callable[[str], TableContext] | None = None,
) -> EraseOptions:
    """Read and check the options; `files` are those of many keys, `other` connects to their table.

    Raises: UsageError.
    """
    values = read_options(request)
    keys, where = key_file(request, settings, other), request.where
    if request.digest_key is not None and keys is None:
        raise UsageError("`--digest-key` needs `--keys`")
    of_history = {"--drop-tags": request.drop_tags, "--delete-versions": request.delete_versions}
    lone = [name for name, value in of_history.items() if value]
    if lone and not request.expire_history:
        raise UsageError(f"`{lone[0]}` needs `--expire-history`")

    def sought(loaded: TableMetadata) -> tuple[Sought, WantedRows]:
        metadata = with_dropped_columns(loaded)
        if keys is not None:
            found = read_keys(keys, request.digest_key, metadata, files)
            return Sought(None, found.columns, found.count, found.digest), found.wanted
        predicate = parse_where(where or "", metadata, now_ms)
        if not condition_ids(predicate):
            raise UsageError("`--where` names no column, and would match every row or none")
        return Sought(where), WantedRows(predicate, predicate)

    ratio, rounds = values["max_fraction"], values["rounds"]
    return EraseOptions(
        sought,
        keys,
        request.expire_history,
        tuple(request.drop_tags or ()),
        MAX_FRACTION if ratio is None else ratio,
        rounds or ROUNDS,
        settings.read(ORPHANS_OLDER_THAN),
        settings.read(ORPHANS_QUARANTINE),
        request.delete_versions,
    )
