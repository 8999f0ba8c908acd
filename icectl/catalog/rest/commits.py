"""What became of a commit: told by the server, or found out by loading the table again."""

from collections.abc import Sequence
from dataclasses import dataclass

from icectl.catalog.http import Answer, NoAnswerError, NotReachedError
from icectl.catalog.protocol import (
    CommitOutcome,
    Committed,
    Conflict,
    LoadedTable,
    Unknown,
    check_same_table,
)
from icectl.catalog.rest.client import Refusal
from icectl.catalog.rest.outcome import (
    came_between,
    changed_otherwise,
    has_landed,
    lost_in,
    put_back,
    removes,
    replaced_file,
    unmet,
    was_there,
)
from icectl.catalog.rest.served import ServedTable, time_ordered_uuid
from icectl.catalog.rest.wire import commit_json
from icectl.errors import IcectlError, Refused, TableNotFound, Unsupported
from icectl.format.updates import Requirement, Update, apply_all

_LOOKS, _LOOK_SECONDS = 3, 0.5
"""How often, and how far apart, the table is looked at after a commit that was not answered."""
_PAUSES_SECONDS = (0.5, 2.0, 5.0)
"""Before a commit is sent again of which nobody knows."""
_TRIES_TO_PUT_BACK = 5
_FAULTS_OF_CLIENTS = frozenset(
    {
        "AlreadyExistsException",
        "BadRequestException",
        "CommitFailedException",
        "ForbiddenException",
        "IllegalArgumentException",
        "NoSuchNamespaceException",
        "NoSuchTableException",
        "NotAuthorizedException",
        "NotImplementedException",
        "UnprocessableEntityException",
        "UnsupportedOperationException",
        "ValidationException",
    }
)
"""Types of errors that servers raise before they change anything, whatever the status is."""


@dataclass(slots=True)
class RestAttempt:
    """One commit; `is_doubtful` once it was sent and nobody knows whether it may still come."""

    table: ServedTable
    base: LoadedTable
    requirements: Sequence[Requirement]
    updates: Sequence[Update]
    key: str
    is_doubtful: bool = False
    _is_unseen: bool = False

    def outcome(self) -> CommitOutcome:
        """Send it, and find out what became of it (R-156).

        Where nobody knows, it is sent again as it was: its conditions and its changes are such that
        of two that arrive one comes to nothing. Raises: Unsupported, Refused, TableNotFound,
        StorageError: where nothing has changed and nothing can come any more.
        """
        name = (self.table.namespace, self.table.name)
        body = commit_json(name, self.base.metadata, self.requirements, self.updates)
        reason = ""
        for pause in _PAUSES_SECONDS:
            try:
                answer = self.table.post(body, self.key)
            except NotReachedError as error:
                if not self.is_doubtful:
                    raise self.table.client.unreachable(self.table.url, error) from error
                reason = str(error)
            except NoAnswerError as error:
                self.is_doubtful, reason = True, str(error)
            except IcectlError as error:  # of the login
                if not self.is_doubtful:
                    raise
                reason = error.message
            else:
                outcome = self._answered(answer)
                if not isinstance(outcome, str):
                    return outcome
                reason = outcome
            seen = self._seen(reason, _LOOKS)
            if seen is not None:
                return seen
            self.table.client.env.sleep(pause)
        return self._seen(reason, 1) or self._unknown(reason)

    def _answered(self, answer: Answer) -> CommitOutcome | str:
        """Return what an answer means; why it means nothing, where it does. Raises: as outcome."""
        client = self.table.client
        if answer.status == 200:
            try:
                now = self.table.loaded_from(client.parsed(answer, self.table.url))
            except IcectlError as error:
                self.is_doubtful = True
                return error.message
            return self._checked(now, is_own=True)
        refusal = Refusal.of(answer)
        if _says_nothing(refusal):
            self.is_doubtful = True
            return str(refusal)
        is_plain = answer.status < 500 and answer.status != 409 and not self.is_doubtful
        seen = self._seen(str(refusal), 2 if answer.status >= 500 else 1)
        if seen is not None and not (is_plain and self._is_unseen):
            return seen
        if self.is_doubtful:
            return str(refusal)
        if answer.status == 409:
            return Conflict(f"the server refuses the commit: {refusal.message}")
        raise self._refused(refusal)

    def _seen(self, reason: str, looks: int) -> CommitOutcome | None:
        """Return the outcome as the table shows it; None where it is as before the commit."""
        for look in range(looks):
            self.table.client.env.sleep(_LOOK_SECONDS * look)
            try:
                now = self.table.load()
                check_same_table(self.base, now.metadata)
            except Refused as error:  # which no commit to the other one lands on
                return Conflict(error.message)
            except IcectlError as error:
                self._is_unseen = True
                return self._unknown(f"{reason}; asked again: {error.message}")
            if now.metadata_location == self.base.metadata_location:
                continue
            if has_landed(self.updates, now.metadata):
                return self._checked(now, is_own=False)
            broken = unmet(self.requirements, now.metadata)
            if broken is not None:
                return self._passed_by(now, broken) if self.is_doubtful else Conflict(broken)
        return None

    def _passed_by(self, now: LoadedTable, reason: str) -> CommitOutcome:
        """Return the outcome of a commit that others came after, whose snapshot is not there.

        It may have gone with what they did, and its files are in use all the same.
        """
        try:
            landed = was_there(
                self.base.metadata_location, now.metadata, self.updates, self.table.stored
            )
        except (IcectlError, OSError) as error:
            return self._unknown(f"what came since cannot be read: {error}")
        if landed is None:
            return self._unknown(f"{reason}, and the table's log does not say what came before")
        return self._checked(now, is_own=False) if landed else Conflict(reason)

    def _unknown(self, reason: str) -> Unknown:
        return Unknown(
            self.base.metadata_location,
            reason,
            message=f"whether the commit to {self.table.shown} has landed is not known: {reason}",
            hint="nothing was deleted; look at the table once the server answers again, and run "
            "the command again",
        )

    def _refused(self, refusal: Refusal) -> IcectlError:
        """Return the error for a commit that the server did not make, and never will."""
        client, message = self.table.client, f"the server refuses the commit: {refusal}"
        if refusal.status in {401, 403, 419}:
            return client.denied(refusal, self.table.url)
        if refusal.status == 404:
            return TableNotFound(f"there is no table {self.table.shown}: {refusal}")
        if refusal.status in {429, 503}:
            return client.failed(refusal, self.table.url)
        unknown = refusal.status in {405, 406, 501} or "Unsupported" in refusal.type
        if unknown or "nrecognized action" in refusal.message:
            return Unsupported(message, hint="the server does not know this kind of change")
        return Refused(message, hint="nothing was changed; the message is the server's own")

    def _checked(self, now: LoadedTable, *, is_own: bool) -> CommitOutcome:
        """The outcome of a commit that has landed, once it has lost nothing of other writers.

        `is_own`: `now` is what the commit made, and nothing newer.
        """
        between = came_between(self.base.metadata_location, now.metadata)
        if not removes(self.updates):
            if is_own and not between:
                self._tell_changes(now)
            return Committed(now)
        try:
            return self._kept(now, between, is_own=is_own)
        except (IcectlError, OSError, NoAnswerError, NotReachedError) as error:
            return self._uncertain(getattr(error, "message", None) or str(error))

    def _kept(
        self, now: LoadedTable, between: Sequence[str] | None, *, is_own: bool
    ) -> CommitOutcome:
        """Put back what a removal took along. Raises: IcectlError; OSError, for files."""
        if is_own:
            log = now.metadata.metadata_log
            replaced = log[-1].metadata_file if log else None
        else:
            replaced = replaced_file(
                self.base.metadata_location, now.metadata, self.updates, self.table.stored
            )
        if replaced is None:
            return self._uncertain("the server keeps no log of the table's metadata files")
        if is_own and between is not None and not between:
            self._tell_changes(now)
            return Committed(now)
        if between is not None and not between:
            return Committed(now)
        before = self.table.stored(replaced)
        for _ in range(_TRIES_TO_PUT_BACK):
            lost = lost_in(before, now.metadata, self.updates)
            if not lost.refs:
                return Committed(now)
            again = put_back(
                lost, now.metadata, self.table.client.env, keep_ids=not self.is_doubtful
            )
            now = self._with(now, *again)
            names = ", ".join(f"`{name}`" for name in lost.refs)
            if set(lost.refs) <= set(now.metadata.refs):
                self.table.warn(
                    f"another writer has set {names} on a snapshot while it was expired, and the "
                    "server dropped that: it was put back, on a snapshot that holds the same"
                )
        return self._uncertain(f"{names} cannot be put back")

    def _with(
        self, now: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> LoadedTable:
        """Return the table after another commit, whatever becomes of that one.

        Raises: IcectlError.
        """
        table = self.table
        name = (table.namespace, table.name)
        body = commit_json(name, now.metadata, requirements, updates)
        answer = table.post(body, time_ordered_uuid(table.client.env))
        if answer.status not in {200, 409} and answer.status < 500:
            raise self._refused(Refusal.of(answer))
        return table.load()

    def _uncertain(self, reason: str) -> Unknown:
        return Unknown(
            self.base.metadata_location,
            reason,
            message=f"the commit to {self.table.shown} has landed, but may have dropped a branch "
            f"or tag that another writer just set ({reason}); no file was deleted",
            hint="look whether every branch and tag is still there before the command runs again: "
            "then it deletes the files",
        )

    def _tell_changes(self, now: LoadedTable) -> None:
        expected = apply_all(self.base.metadata, self.updates)
        changed = changed_otherwise(expected, now.metadata)
        if self.table.keeps_history:
            changed = [each for each in changed if each not in ("properties", "snapshots")]
        if changed:
            self.table.warn(
                f"the server made the commit, and has {', '.join(changed)} otherwise than was "
                "asked for"
            )


def _says_nothing(refusal: Refusal) -> bool:
    """Return whether a refusal leaves open what becomes of the commit (R-156).

    Status 500 and above says nothing of it, whatever stands beside it, unless the error's type is
    one of what the client did wrong.
    """
    if refusal.status < 200 or refusal.status in {204, 408, 502, 503, 504}:
        return True
    return refusal.status >= 500 and refusal.type not in _FAULTS_OF_CLIENTS
