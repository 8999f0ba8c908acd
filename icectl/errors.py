"""Every error that icectl expects, with its exit code, stable id and hint.

IcectlError
├── SelfCheckFailed         1   may carry a rule id
├── UsageError              2
├── Incomplete              3
├── ProblemsFound           4
├── Refused                 5
│   └── Declined            5
├── TableNotFound          10
├── CommitConflict         11
├── CommitUnknown          12
├── StorageError           13
├── Unsupported            14   carries a rule id where one says so
├── CorruptTable           15   carries a rule id
│   ├── MissingFile        15
│   └── OtherFile          15
└── EngineError            16

A failed check of icectl's own output is a bug like anything else that reaches the command line:
exit 1, with its traceback.
"""

from typing import Any, ClassVar


class IcectlError(Exception):
    """An expected failure: what happened, and what to do next.

    `message` is one clause in lower case without a final stop; `hint` names the next step. `what`
    is the message without its rule, and `reason` also without what was to be done to which file.
    """

    exit_code: ClassVar[int] = 1
    id: ClassVar[str] = "error"
    meaning: ClassVar[str] = ""
    default_hint: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        id: str | None = None,  # noqa: A002
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = self.what = message
        self.reason = message if reason is None else reason
        self.hint = hint if hint is not None else self.default_hint
        self.error_id = id if id is not None else self.id

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to other processes as it is, whatever its construction asks for."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class SelfCheckFailed(IcectlError):
    """A mistake of icectl in what it has written; no commit names that."""

    exit_code = 1
    id = "self-check-failed"
    default_hint = (
        "this is a bug in icectl, and nothing that failed the check was committed; please report "
        "it with the lines above and the output of `icectl validate TABLE`"
    )

    def __init__(self, message: str, *, rule: str | None = None) -> None:
        text = message if rule is None else f"{message} ({rule})"
        super().__init__(f"internal check failed: {text}")
        self.rule = rule


class UsageError(IcectlError):
    """The command line, or the configuration, asks for something that makes no sense."""

    exit_code = 2
    id = "usage"
    meaning = "wrong usage"


NO_TABLE = "no-table"
"""Id of wrong usage that names no table, or something else in its place."""


class Incomplete(IcectlError):
    """An end before all of the work is done; running the command again continues it."""

    exit_code = 3
    id = "incomplete"
    meaning = "partly done: what failed is listed, running again continues"


class ProblemsFound(IcectlError):
    """The problems that were found: errors by `validate`, or work to do by `--check`."""

    exit_code = 4
    id = "problems-found"
    meaning = "`validate` found errors; `--check` found work"


class Refused(IcectlError):
    """A refusal: going on could lose data or history, so nothing was done."""

    exit_code = 5
    id = "refused"
    meaning = "refused for safety; the message says what to do instead"


class Declined(Refused):
    """The answer no to a question; nothing was done."""

    id = "declined"

    def __init__(self) -> None:
        super().__init__("nothing was changed", hint="confirm with `--yes`")


class TableNotFound(IcectlError):
    """A table that is not where the caller says."""

    exit_code = 10
    id = "table-not-found"
    meaning = "no such table"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        id: str | None = None,  # noqa: A002
        hint_after_listing: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, id=id)
        self.hint_after_listing = hint if hint_after_listing is None else hint_after_listing
        """The hint if a listing of the place found no table either."""


class CommitConflict(IcectlError):
    """Another writer committed first and the retries are used up."""

    exit_code = 11
    id = "commit-conflict"
    meaning = "conflict: another writer committed first, no retries left"
    default_hint = "nothing was changed; run the command again"


class CommitUnknown(IcectlError):
    """The store did not say whether the commit landed; nothing was deleted."""

    exit_code = 12
    id = "commit-unknown"
    meaning = "commit outcome unknown; nothing was deleted; the message says how to find out"


class StorageError(IcectlError):
    """The store is unreachable, denies access, or lacks a file that must be there."""

    exit_code = 13
    id = "storage"
    meaning = "storage or catalog unreachable, or access denied"


class Unsupported(IcectlError):
    """The table uses something that icectl does not know how to carry on safely."""

    exit_code = 14
    id = "unsupported"
    meaning = "not supported: the table uses something that icectl doesn't know"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        id: str | None = None,  # noqa: A002
        rule: str | None = None,
        reason: str | None = None,
        location: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, id=id, reason=reason)
        self.rule = rule
        self.location = location


class CorruptTable(IcectlError):
    """The table's metadata breaks a rule of the format; `location` is the file, if it is known."""

    exit_code = 15
    id = "corrupt-table"
    meaning = "corrupt table; the message names the rule"
    default_hint = "restore the damaged file, or the metadata file before it"

    def __init__(
        self,
        message: str,
        *,
        rule: str,
        hint: str | None = None,
        reason: str | None = None,
        location: str | None = None,
    ) -> None:
        super().__init__(f"{message} ({rule})", hint=hint, reason=reason or message)
        self.what = message
        self.rule = rule
        self.location = location


class MissingFile(CorruptTable):
    """A file that the table's metadata names is not there: no store will bring it back (R-034)."""

    id = "file-missing"
    location: str

    def __init__(self, location: str) -> None:
        super().__init__(
            f"`{location}` is missing, although the table's metadata names it",
            rule="R-034",
            hint="`--path-map FROM=TO` reads a table that was moved or copied",
            location=location,
        )


class OtherFile(CorruptTable):
    """A whole file under the name of another one: what that one said is lost."""

    id = "other-file"
    default_hint = (
        "restore the file from a copy, or roll back to a snapshot from before it was added"
    )


class EngineError(IcectlError):
    """The engine that runs the data work failed or is not installed."""

    exit_code = 16
    id = "engine"
    meaning = "the engine failed (Spark, Java missing)"


EXIT_CODES: dict[int, str] = {
    0: "done, or nothing to do",
    1: "unexpected failure, a bug: traceback printed",
    **{error.exit_code: error.meaning for error in IcectlError.__subclasses__() if error.meaning},
    130: "interrupted",
    143: "terminated",
}
"""Meaning of every exit code, as the README, the manual and each command's help print it."""
