"""What commands and options of other tools are called here.

Spark's procedures, Trino's statements and PyIceberg's command line are listed whole, for
`docs/from-other-tools.md`; words of other programs follow. Errors about unknown names hint by them.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

Tool = Literal["Spark", "Trino", "PyIceberg"]


@dataclass(frozen=True, slots=True)
class ForeignCommand:
    """A procedure, statement or command of another tool.

    `here` is the command line that does the same; where there is none, `instead` says what to do.
    `options` name what stands for each option: options of `here` in backticks, or a sentence.
    """

    tool: Tool
    name: str
    here: str | None
    instead: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str | None:
        """Name of the icectl command that does the same."""
        return None if self.here is None else self.here.split()[1]

    @property
    def hint(self) -> str:
        """What a user who types the name is advised."""
        return self.instead if self.here is None else f"did you mean `{self.here}`?"


_SIZES = {
    "target-file-size-bytes": "`--target-file-size SIZE`",
    "min-file-size-bytes": "`--min-file-size SIZE`",
    "max-file-size-bytes": "`--max-file-size SIZE`",
    "max-file-group-size-bytes": "`--max-group-size SIZE`",
    "max-file-group-input-files": "`--max-group-size SIZE`, which counts bytes",
    "min-input-files": "`--min-input-files N`",
    "rewrite-all": "`--rewrite-all`",
    "rewrite-job-order": "`--job-order ORDER`",
    "max-concurrent-file-group-rewrites": "`--concurrency N`, or Spark's own parallelism",
    "partial-progress.enabled": "`--partial-progress N`, the number of commits",
    "partial-progress.max-commits": "`--partial-progress N`",
}
_NO_VIEW = "icectl prints rows with `inspect TABLE changes`, and makes no views"
_NO_LINE = "icectl shows the line of the current snapshot; `snapshots` has each parent"
_NO_STREAM = "icectl needs no option for this: it always works in bounded memory"
_NO_SHUFFLE = "icectl has no such option: it splits sorted rows by size"
_NO_TUNING = "icectl has no such option: each column of a Z-order has equal weight"
_NO_IMPORT = "icectl does not add files to tables: use Spark's `add_files` or PyIceberg's"
_NO_COPY = "icectl does not convert Hive tables: use Spark's `snapshot` or `migrate`"
_NO_REGISTER = "icectl does not register tables: use the catalog's own tool, Spark or PyIceberg"
_NO_DROP = "icectl does not create, rename or drop tables: use the engine or catalog"
_HEAD_STATISTICS = "`--branch NAME`: icectl computes statistics of the newest snapshot"
_NO_PICK = "icectl does not apply changes of a snapshot again: use Spark's `cherrypick_snapshot`"

FOREIGN_COMMANDS: tuple[ForeignCommand, ...] = (
    ForeignCommand("Spark", "expire_snapshots", "icectl expire-snapshots TABLE", options={
        "older_than": "`--older-than TIMESTAMP`",
        "retain_last": "`--retain-last N`",
        "snapshot_ids": "`--snapshot-id ID`, once for each snapshot",
        "max_concurrent_deletes": "`--concurrency N`",
        "stream_results": _NO_STREAM,
        "clean_expired_metadata": "`--clean-expired-metadata`",
    }),
    ForeignCommand("Spark", "remove_orphan_files", "icectl remove-orphans TABLE", options={
        "older_than": "`--older-than TIMESTAMP`",
        "location": "`--location URI`",
        "dry_run": "`--dry-run`",
        "max_concurrent_deletes": "`--concurrency N`",
        "file_list_view": "`--inventory FILE`, a listing of the store",
        "equal_schemes": "`--equal-scheme A=B`",
        "equal_authorities": "`--equal-authority A=B`",
        "prefix_mismatch_mode": "`--prefix-mismatch MODE`",
        "prefix_listing": "icectl needs no option for this: it always lists by prefix",
        "stream_results": _NO_STREAM,
    }),
    ForeignCommand("Spark", "rewrite_data_files", "icectl compact TABLE", options={
        "strategy": "`--strategy NAME`",
        "sort_order": "`--sort-order KEYS`, or `--zorder A,B`",
        "where": "`--where EXPR`",
        "branch": "`--branch NAME`",
        **_SIZES,
        "partial-progress.max-failed-commits": "`--max-failed-commits N`",
        "delete-file-threshold": "`--min-delete-files N`",
        "delete-ratio-threshold": "`--min-delete-ratio R`",
        "output-spec-id": "`--output-spec-id N`",
        "max-files-to-rewrite": "`--max-groups N`, which counts groups",
        "use-starting-sequence-number": "icectl needs no option for this: it always does so",
        "remove-dangling-deletes": "icectl needs no option for this: it always does so",
        "compression-factor": _NO_SHUFFLE,
        "shuffle-partitions-per-file": _NO_SHUFFLE,
        "var-length-contribution": _NO_TUNING,
        "max-output-size": _NO_TUNING,
    }),
    ForeignCommand("Spark", "rewrite_position_delete_files", "icectl compact TABLE --deletes-only",
                   options={"where": "`--where EXPR`", **_SIZES,
                            "max-files-to-rewrite": "`--max-groups N`, which counts groups"}),
    ForeignCommand("Spark", "rewrite_manifests", "icectl rewrite-manifests TABLE", options={
        "spec_id": "`--spec-id N`",
        "sort_by": "`--sort-by FIELD,...`",
        "use_caching": "icectl needs no option for this: it caches nothing in Spark",
    }),
    ForeignCommand("Spark", "rewrite_table_path", "icectl relocate TABLE", options={
        "source_prefix": "`--from PREFIX`",
        "target_prefix": "`--to PREFIX`",
        "create_file_list": "`--copy-list FILE`",
        "start_version": "icectl rewrites all versions",
        "end_version": "icectl rewrites all versions",
        "staging_location": "icectl writes at the new place, without staging",
    }),
    ForeignCommand("Spark", "rollback_to_snapshot", "icectl refs TABLE rollback",
                   options={"snapshot_id": "`--to WHERE`"}),
    ForeignCommand("Spark", "rollback_to_timestamp", "icectl refs TABLE rollback",
                   options={"timestamp": "`--to WHERE`, which takes a timestamp"}),
    ForeignCommand("Spark", "set_current_snapshot", "icectl refs TABLE rollback",
                   options={"snapshot_id": "`--to WHERE`", "ref": "`--to WHERE`"}),
    ForeignCommand("Spark", "fast_forward", "icectl refs TABLE fast-forward BRANCH",
                   options={"branch": "the name after `fast-forward`", "to": "`--to WHERE`"}),
    ForeignCommand("Spark", "ancestors_of", "icectl inspect TABLE history",
                   options={"snapshot_id": _NO_LINE}),
    ForeignCommand("Spark", "create_changelog_view", None, _NO_VIEW),
    ForeignCommand("Spark", "cherrypick_snapshot", None, _NO_PICK),
    ForeignCommand("Spark", "publish_changes", None, _NO_PICK),
    ForeignCommand("Spark", "snapshot", None, _NO_COPY),
    ForeignCommand("Spark", "migrate", None, _NO_COPY),
    ForeignCommand("Spark", "add_files", None, _NO_IMPORT),
    ForeignCommand("Spark", "register_table", None, _NO_REGISTER),
    ForeignCommand("Spark", "compute_table_stats", "icectl analyze TABLE --only columns", options={
        "snapshot_id": _HEAD_STATISTICS,
        "columns": "`--columns A,B`",
    }),
    ForeignCommand("Spark", "compute_partition_stats", "icectl analyze TABLE --only partitions",
                   options={"snapshot_id": _HEAD_STATISTICS}),
    ForeignCommand("Trino", "optimize", "icectl compact TABLE", options={
        "file_size_threshold": "`--min-file-size SIZE`",
    }),
    ForeignCommand("Trino", "optimize_manifests", "icectl rewrite-manifests TABLE"),
    ForeignCommand("Trino", "expire_snapshots", "icectl expire-snapshots TABLE", options={
        "retention_threshold": "`--older-than TIMESTAMP`, which takes a duration",
        "retain_last": "`--retain-last N`",
        "clean_expired_metadata": "`--clean-expired-metadata`",
    }),
    ForeignCommand("Trino", "remove_orphan_files", "icectl remove-orphans TABLE", options={
        "retention_threshold": "`--older-than TIMESTAMP`, which takes a duration",
    }),
    ForeignCommand("Trino", "rollback_to_snapshot", "icectl refs TABLE rollback",
                   options={"snapshot_id": "`--to WHERE`"}),
    ForeignCommand("Trino", "drop_extended_stats", None,
                   "icectl does not drop statistics: use Trino's `drop_extended_stats`"),
    ForeignCommand("Trino", "analyze", "icectl analyze TABLE", options={
        "columns": "`--columns A,B`",
    }),
    ForeignCommand("Trino", "set_properties", "icectl properties TABLE set"),
    ForeignCommand("Trino", "add_files", None, _NO_IMPORT),
    ForeignCommand("Trino", "add_files_from_table", None, _NO_IMPORT),
    ForeignCommand("Trino", "register_table", None, _NO_REGISTER),
    ForeignCommand("Trino", "unregister_table", None, _NO_REGISTER),
    ForeignCommand("Trino", "migrate", None, _NO_COPY),
    ForeignCommand("PyIceberg", "list", "icectl inspect"),
    ForeignCommand("PyIceberg", "describe", "icectl inspect TABLE", options={
        "entity": "icectl needs no option for this: it finds out what a name is",
    }),
    ForeignCommand("PyIceberg", "files", "icectl inspect TABLE files",
                   options={"history": "`--all-snapshots`"}),
    ForeignCommand("PyIceberg", "schema", "icectl inspect TABLE schemas"),
    ForeignCommand("PyIceberg", "spec", "icectl inspect TABLE specs"),
    ForeignCommand("PyIceberg", "uuid", "icectl inspect TABLE"),
    ForeignCommand("PyIceberg", "location", "icectl inspect TABLE"),
    ForeignCommand("PyIceberg", "list-refs", "icectl refs TABLE", options={
        "type": "icectl needs no option for this: it lists branches and tags",
    }),
    ForeignCommand("PyIceberg", "properties", "icectl properties TABLE"),
    ForeignCommand("PyIceberg", "create", None, _NO_DROP),
    ForeignCommand("PyIceberg", "drop", None, _NO_DROP),
    ForeignCommand("PyIceberg", "rename", None, _NO_DROP),
    ForeignCommand("PyIceberg", "version", "icectl --version"),
)  # fmt: skip
"""Every maintenance command of the tools that icectl's users come from, with all of its options."""

_ANY_COMMAND: Mapping[str, str] = {
    "output": "`--json`",
    "uri": "`--catalog-option uri=URI`, with `--catalog NAME`",
    "credential": "`--catalog-option credential=env:NAME`, with `--catalog NAME`",
    "warehouse": "`--catalog-option warehouse=URI`, with `--catalog NAME`",
    "ugi": "`--catalog-option ugi=USER`, with `--catalog NAME`",
    "log-level": "`--verbose`, twice for each store call",
    "o": "`--json`, which prints one JSON document",
    "force": "`--yes`, which asks no question",
    "f": "`--yes`, which asks no question",
    "to-snapshot": "`--to` with a snapshot's id",
    "snapshot": "`--at` with a snapshot's id",
    "move-to": "`--quarantine DIR`, which moves files there",
    "debug": "`-v`, or `-vv` for each store call",
    "V": "`icectl --version`",
    "version": "`icectl --version`",
}
"""Options of any command of PyIceberg's, and of other programs."""

_COMMON_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("ls", "show", "info", "status"), "icectl inspect"),
    "history": "icectl inspect TABLE history",
    **dict.fromkeys(("log", "logs", "jobs"), "icectl runs"),
    "snapshots": "icectl inspect TABLE snapshots",
    "list-snapshots": "icectl inspect TABLE snapshots",
    "health": "icectl inspect TABLE health",
    **dict.fromkeys(("check", "verify", "fsck"), "icectl validate"),
    "fix": "icectl repair",
    **dict.fromkeys(("vacuum", "gc", "clean", "prune"), "icectl maintain"),
    "merge": "icectl compact",
    "orphans": "icectl remove-orphans TABLE --dry-run",
    "rollback": "icectl refs TABLE rollback",
    **dict.fromkeys(("tag", "branch"), "icectl refs"),
    **dict.fromkeys(("set", "unset"), "icectl properties"),
    **dict.fromkeys(("move", "copy"), "icectl relocate"),
    **dict.fromkeys(("config", "catalogs"), "icectl doctor"),
}
"""What people type who have no other tool in mind."""

_DELETING_WORDS = ("expire", "remove", "drop", "delete", "erase", "purge")
"""First words of commands that delete: they are suggested only for names that say so."""

_UPGRADES = ("upgrade", "migrate")


def command_hint(name: str, known: Collection[str]) -> str | None:
    """Say what is meant by the name of a command that icectl lacks; None if nothing is close."""
    typed = name.lower().replace("_", "-")
    for foreign in FOREIGN_COMMANDS:
        if typed == foreign.name.replace("_", "-"):
            return foreign.hint
    if typed in _COMMON_WORDS:
        return f"did you mean `{_COMMON_WORDS[typed]}`?"
    if typed.split("-")[0] in _UPGRADES:
        return _upgrade_hint(typed, known)
    close = [command for command in _close_to(typed, known) if _may_mean(typed, command)]
    return f"did you mean {' or '.join(f'`{command}`' for command in close)}?" if close else None


def option_hint(option: str, command: str, known: Collection[str]) -> str | None:
    """Say what stands for an option of another tool, in a command with the `known` options."""
    typed = option.lstrip("-").replace("_", "-")
    for foreign in (*_options_of(command, typed), *_options_of(None, typed)):
        if not foreign.startswith("`"):
            return foreign
        if foreign.startswith("`icectl") or foreign.strip("`").split("`")[0].split()[0] in known:
            return f"use {foreign}"
    return None


def _options_of(command: str | None, typed: str) -> Iterator[str]:
    """Yield what stands for an option; of any command for None, but no sentence then."""
    for foreign in FOREIGN_COMMANDS:
        if command is None or foreign.command == command:
            for name, here in foreign.options.items():
                is_same = typed in (name.replace("_", "-"), name.replace(".", "-"))
                if is_same and (command is not None or here.startswith("`")):
                    yield here
    if command is None and typed in _ANY_COMMAND:
        yield _ANY_COMMAND[typed]


def _upgrade_hint(typed: str, known: Collection[str]) -> str | None:
    """Name the upgrade to the version in a name, or all upgrades where there is none."""
    upgrades = [command for command in known if command.split("-")[0] in _UPGRADES]
    version = typed.rpartition("v")[2]
    if version.isdigit():
        upgrades = [command for command in upgrades if command.endswith(f"v{version}")]
    listed = " or ".join(f"`{command}`" for command in upgrades)
    return f"did you mean {listed}?" if listed else None


def _close_to(typed: str, known: Collection[str]) -> list[str]:
    close = [command for command in known if typed and typed in command.split("-")]
    close = close or get_close_matches(typed, known, n=1, cutoff=0.75)
    close = close or [command for command in known if typed and command.startswith(typed)]
    if not close:  # the name may be a word of a command, mistyped
        words = {word: command for command in known for word in command.split("-") if len(word) > 2}
        close = [words[near] for near in get_close_matches(typed, words, n=1, cutoff=0.75)]
    return close


def _may_mean(typed: str, command: str) -> bool:
    """Return whether a name may stand for a command: one that deletes only if the name says so."""
    verb = command.split("-", maxsplit=1)[0]
    if verb not in _DELETING_WORDS:
        return True
    words = typed.split("-")
    return any(get_close_matches(word, (verb,), cutoff=0.75) for word in words) or any(
        word and verb.startswith(word) for word in words[:1]
    )
