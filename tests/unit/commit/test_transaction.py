"""The three ends of a commit, and what each leaves of the files that were written for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from icectl.catalog.protocol import Catalog, CommitOutcome, Conflict, LoadedTable, Unknown
from icectl.commit.transaction import Proposal, transaction
from icectl.errors import CommitConflict, CommitUnknown, Refused, StorageError, TableNotFound
from icectl.format.metadata import TableMetadata
from icectl.format.updates import Requirement, SetProperties, Update
from icectl.table.context import TableContext
from tests.builders.expiry import context_of
from tests.builders.orphans import OTHER_UUID, edit_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.unit.commit.test_deletion_journal import Warnings

COMMAND = "rewrite-manifests"
OWNED = [SetProperties({"owner": "ops"})]


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return filled_table(tmp_path / "t", range(4))


class Answering:
    """A catalog that answers commits in its own way."""

    def __init__(self, catalog: Catalog, answer: Callable[[], CommitOutcome]) -> None:
        self.catalog, self.answer = catalog, answer

    def load(self) -> LoadedTable:
        return self.catalog.load()

    def check_writable(self, loaded: LoadedTable) -> None:
        self.catalog.check_writable(loaded)

    def settle(self) -> None:
        self.catalog.settle()

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        return self.answer()


class UnderWay(Answering):
    """A catalog that was about to commit when it was asked for the first commit."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog, lambda: Conflict("a commit is in progress", may_land=True))
        self.is_asked = False

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        if self.is_asked:
            return self.catalog.commit(base, requirements, updates)
        self.is_asked = True
        return self.answer()


def answering(table: TableBuilder, answer: Callable[[], CommitOutcome]) -> TableContext:
    context = context_of(table.location)
    return replace(context, catalog=Answering(context.catalog, answer))


def failing(error: BaseException) -> Callable[[], CommitOutcome]:
    def answer() -> CommitOutcome:
        raise error

    return answer


@dataclass
class Run:
    """A transaction that writes two files and commits; `files` are these."""

    context: TableContext
    propose: Callable[[TableMetadata], Proposal]
    while_writing: BaseException | None = None
    afterwards: BaseException | None = None
    files: list[Path] = field(default_factory=list)
    landed: LoadedTable | None = None
    _journal: Path = Path()

    def __call__(self) -> None:
        with transaction(self.context, self.context.catalog.load(), COMMAND) as opened:
            self._journal = Path(opened.outputs.journal.location)
            for _ in range(2):
                place = opened.outputs.manifest()
                self.context.store.create(place, b"Obj")
                self.files.append(Path(place))
            if self.while_writing is not None:
                raise self.while_writing
            self.landed = opened.commit(self.propose)
            assert self.present == [True, True, True]
            if self.afterwards is not None:
                raise self.afterwards

    def owned(self, _: TableMetadata) -> Proposal:
        return Proposal(OWNED, frozenset({str(self.files[1])}))

    @property
    def present(self) -> list[bool]:
        """Whether the journal and each file are there."""
        return [path.exists() for path in (self._journal, *self.files)]


def owning(context: TableContext, **more: BaseException) -> Run:
    """A run that needs the second of its files."""
    made = Run(context, lambda _: Proposal(()), **more)
    made.propose = made.owned
    return made


def test_a_commit_that_landed_keeps_what_it_needs_and_nothing_else(table):
    context = context_of(table.location)
    run = owning(context)
    run()
    assert run.present == [False, False, True]
    assert run.landed == context.catalog.load()
    assert run.landed.metadata.properties["owner"] == "ops"


def test_what_goes_wrong_after_a_commit_takes_nothing_of_it_along(table):
    run = owning(context_of(table.location), afterwards=KeyError("a bug"))
    with pytest.raises(KeyError):
        run()
    assert run.present == [False, False, True]


ERRORS = [RuntimeError("a bug"), StorageError("the store is ill"), OSError("no space left"),
          KeyboardInterrupt()]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("when", ["writing", "proposing"])
def test_whatever_ends_a_run_before_its_request_leaves_no_file(table, error, when):
    def propose(_: TableMetadata) -> Proposal:
        raise error

    run = Run(context_of(table.location), propose, error if when == "writing" else None)
    with pytest.raises(type(error)):
        run()
    assert run.present == [False, False, False]


def test_a_conflict_for_good_leaves_no_file(table):
    table.set_properties({"commit.retry.num-retries": "0"})
    run = owning(answering(table, lambda: Conflict("another was faster")))
    with pytest.raises(CommitConflict):
        run()
    assert run.present == [False, False, False]


@pytest.mark.parametrize("error", [RuntimeError("a bug"), Refused("no"), OSError("no")])
def test_a_catalog_that_sent_nothing_leaves_no_file(table, error):
    run = owning(answering(table, failing(error)))
    with pytest.raises(type(error)):
        run()
    assert run.present == [False, False, False]


UNKNOWN: dict[str, Callable[[], CommitOutcome]] = {
    "no answer": lambda: Unknown("v9.metadata.json", "no answer"),
    "an interrupt": failing(KeyboardInterrupt()),
    "an end of the program": failing(SystemExit()),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_r156_where_nobody_knows_how_it_ended_every_file_stays(table, case):
    run = owning(answering(table, UNKNOWN[case]))
    with pytest.raises((CommitUnknown, KeyboardInterrupt, SystemExit)):
        run()
    assert run.present == [True, True, True]


def test_files_of_an_attempt_that_may_land_beside_the_last_one_stay(table):
    """Another writer may have built on it, and have expired its snapshot at once."""
    progress = Warnings()
    context = context_of(table.location, progress=progress)
    run = owning(replace(context, catalog=UnderWay(context.catalog)))
    run()
    assert "an earlier attempt of this commit may have landed too" in progress.told[-1]
    assert run.landed == context.catalog.load()
    assert run.present == [True, True, True]


def test_an_interrupt_between_two_attempts_leaves_no_file(table):
    """What was sent before has met a conflict, and nothing is under way."""
    proposals = iter([Proposal(OWNED)])

    def propose(_: TableMetadata) -> Proposal:
        found = next(proposals, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    run = Run(answering(table, lambda: Conflict("another was faster")), propose)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert run.present == [False, False, False]


def another(place: Path) -> None:
    """A table of its own in the same place."""
    TableBuilder(place).append(range(2))
    edit_metadata(place, table_uuid=OTHER_UUID)


MOVED = {
    "away": (lambda _: None, TableNotFound, "no Iceberg table at {0}"),
    "away, and another made": (
        another,
        Refused,
        "{0}/metadata/v2.metadata.json now belongs to another table: its table-uuid is ",
    ),
}


@pytest.mark.parametrize("moved", MOVED)
@pytest.mark.parametrize("first", [None, StorageError("a file is missing")])
def test_a_run_says_what_is_where_its_table_was_moved_away(table, moved, first):
    """It was told that another run had taken it for dead."""
    make, error, message = MOVED[moved]

    def propose(_: TableMetadata) -> Proposal:
        table.directory.rename(f"{table.directory}-away")
        (table.directory / "metadata").mkdir(parents=True)
        make(table.directory)
        if first is not None:
            raise first
        return Proposal(OWNED)

    run = Run(context_of(table.location), propose)
    with pytest.raises(error) as caught:
        run()
    assert caught.value.message.startswith(message.format(table.directory))
    assert caught.value.__cause__ is first


def test_a_run_whose_record_alone_is_gone_was_taken_for_dead(table):
    names: list[str] = []

    def propose(_: TableMetadata) -> Proposal:
        (journal,) = table.directory.glob("metadata/icectl-*.json")
        names.append(journal.name)
        journal.unlink()
        return Proposal(OWNED)

    with pytest.raises(CommitConflict) as caught:
        Run(context_of(table.location), propose)()
    assert caught.value.message == (
        f"the journal of this run, {names[0]}, is gone: another run considered this one dead, "
        "or a copy replaced the table"
    )


def test_nothing_is_written_into_the_folder_of_another_table(table, tmp_path):
    other = filled_table(tmp_path / "u", range(2))
    edit_metadata(other.directory, table_uuid=OTHER_UUID)
    context = context_of(table.location)
    base = replace(context.catalog.load(), metadata_folder=f"{other.location}/metadata")
    with (
        pytest.raises(Refused, match="among files of another table"),
        transaction(context, base, COMMAND),
    ):
        pytest.fail("it was begun")
