"""What killed runs of icectl and failed commits of others have left, and what comes of it."""

import os
from pathlib import Path

import pytest

from icectl.storage.location import check_sum
from tests.builders.expiry import NOW_MS
from tests.builders.folders import files_of
from tests.builders.orphans import OTHER_UUID, age, edit_metadata
from tests.builders.rows import current_metadata, read_metadata
from tests.fault.changing import Subject, run, subject_of
from tests.unit.storage.test_new_files import OURS

COMMANDS = ("expire-v2", "remove-orphans", "rewrite-manifests", "compact-v2", "migrate", "upgrade")
OLD_DAYS, YOUNG_DAYS = 8, 0.9
HIDDEN = ("metadata/.keep", "metadata/_temporary", "data/.icectl")


@pytest.fixture(scope="module", params=COMMANDS)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return subject_of(request.param, tmp_path_factory.mktemp("leftovers"))


def left(subject: Subject, days: float, prefix: str = "metadata/") -> set[str]:
    """Files that killed runs were writing so long ago."""
    made = set()
    for name in OURS:
        path = subject.directory / f"{prefix}{name.replace('4242', str(round(days * 1000)))}"
        if name.startswith(".icectl-probe") and days == YOUNG_DAYS:
            path = path.with_name(path.name.replace("9c12", "0c12"))
        elif name.startswith(".icectl-1-2") and days == YOUNG_DAYS:
            path = path.with_name(path.name.replace("-1-2-", "-3-4-"))
        path.write_bytes(b"x")
        age(path, days)
        made.add(str(path.relative_to(subject.directory)))
    return made


def hide(subject: Subject) -> None:
    for name in HIDDEN:
        path = subject.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
        age(path, OLD_DAYS)


@pytest.mark.parametrize("has_work", [True, False])
def test_the_next_run_removes_what_killed_runs_were_writing_a_day_ago(subject, has_work):
    subject.restore()
    if not has_work:
        subject.finish()
    hide(subject)
    old, young = left(subject, OLD_DAYS), left(subject, YOUNG_DAYS)
    assert len(old | young) == 2 * len(OURS)
    code, document = run([*subject.words, "--dry-run"])
    assert code == 0, document
    assert files_of(subject.directory) >= old | young | set(HIDDEN)
    code, document = subject.run()
    assert code == 0, document
    after = files_of(subject.directory)
    assert after & old == set()
    assert after >= young | set(HIDDEN)
    subject.check_whole()


def test_remove_orphans_removes_them_from_the_folders_of_the_data(subject):
    subject.restore()
    hide(subject)
    old, young = left(subject, OLD_DAYS, "data/"), left(subject, YOUNG_DAYS, "data/")
    words = ["--yes", "--json", "--max-fraction", "1"]
    code, document = run(["remove-orphans", str(subject.directory), *words])
    assert code == 0, document
    after = files_of(subject.directory)
    assert after & old == set()
    assert after >= young | set(HIDDEN)
    subject.check_whole()


@pytest.mark.parametrize("name", ["expire-v2", "expire-v3"])
def test_check_sums_go_with_the_files_that_expire(tmp_path, name):
    subject = subject_of(name, tmp_path)
    for path in [path for path in subject.directory.rglob("*") if path.is_file()]:
        Path(check_sum(str(path))).write_bytes(b"crc")
    before = files_of(subject.directory)
    code, document = subject.run()
    assert code == 0, document
    after = files_of(subject.directory)
    gone = {file for file in before - after if not file.endswith(".crc")}
    assert len(gone) > 3
    hint = "metadata/.version-hint.text.crc"  # the hint has changed
    assert before - after - {hint} == gone | {check_sum(file) for file in gone}
    subject.check_whole()


def test_a_check_sum_by_name_that_the_table_reaches_stays(tmp_path):
    """Nobody names data so; it is the table that says what its files are."""
    subject = subject_of("expire-v2", tmp_path)
    doomed = run([*subject.words, "--dry-run"])[1]["result"]["files"]
    place = next(file["path"] for file in doomed if file["path"].endswith(".parquet"))
    kept = Path(check_sum(place.removeprefix("file:")))
    kept.write_bytes(b"statistics")
    statistics = {
        "snapshot-id": read_metadata(current_metadata(subject.directory))["current-snapshot-id"],
        "statistics-path": str(kept),
        "file-size-in-bytes": 10,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    edit_metadata(subject.directory, statistics=[statistics])
    code, document = subject.run()
    assert code == 0, document
    assert not Path(place.removeprefix("file:")).exists()
    assert kept.exists()


WAITING = f"metadata/{OTHER_UUID}.metadata.json"
MINUTE_DAYS = 1 / 1440


@pytest.fixture
def littered(tmp_path: Path) -> Subject:
    return subject_of("remove-orphans", tmp_path)


def wait(subject: Subject, days: float, content: bytes) -> None:
    path = subject.directory / WAITING
    path.write_bytes(content)
    age(path, days)


HALVES = [b"", b'{"format-version": 2, "table-uu', b'{"format-version": 2}']


@pytest.mark.parametrize("content", HALVES)
@pytest.mark.parametrize(
    ("days", "goes"),
    [(0, False), (-MINUTE_DAYS, False), (11 * MINUTE_DAYS, False), (OLD_DAYS, True)],
)
def test_a_file_that_waits_for_its_rename_is_no_other_table(littered, content, days, goes, capfd):
    """While it is young its writer is at work; later it is left over, and then an orphan."""
    wait(littered, days, content)
    code, document = run([*[word for word in littered.words if word != "--yes"], "--check"])
    assert code == 4, document
    orphans = {file["path"] for file in document["result"]["orphans"]}
    assert any(path.endswith(WAITING) for path in orphans) is goes
    told = capfd.readouterr().err
    assert (f"{OTHER_UUID}.metadata.json in the metadata directory is left over" in told) is (
        days > 10 * MINUTE_DAYS
    )


def test_what_a_failed_commit_has_left_over_is_deleted_when_it_is_old(littered):
    wait(littered, OLD_DAYS, HALVES[1])
    code, document = littered.run()
    assert code == 0, document
    assert not (littered.directory / WAITING).exists()
    littered.check_whole()


def test_a_whole_file_of_another_table_is_refused_however_it_is_named(littered):
    current = (littered.directory / "metadata" / littered.current()).read_bytes()
    uuid = current.partition(b'"table-uuid"')[2].partition(b'"')[2].partition(b'"')[0]
    wait(littered, OLD_DAYS, current.replace(uuid, OTHER_UUID.encode()))
    code, document = littered.run()
    assert (code, document["error"]["id"]) == (5, "other-table")


@pytest.mark.parametrize(("options", "code"), [((), 11), (("--skip-if-busy",), 0)])
def test_while_a_commit_does_not_end_nothing_is_deleted(littered, options, code):
    """Its writer may be stuck, or dead for a few minutes only."""
    wait(littered, 0, HALVES[0])
    before = files_of(littered.directory)
    ended, document = run([*littered.words, *options])
    assert ended == code, document
    assert files_of(littered.directory) == before
    if code:
        assert document["error"]["message"] == (
            f"another writer is in the middle of a commit, as {OTHER_UUID}.metadata.json shows"
        )
    else:
        assert (document["status"], document["result"]["orphans"]) == ("nothing-to-do", [])


@pytest.mark.parametrize(("options", "code"), [((), 11), (("--skip-if-busy",), 0)])
@pytest.mark.parametrize("name", ["expire-v2", "rewrite-manifests", "compact-v2"])
def test_a_commit_that_does_not_end_is_a_conflict(tmp_path, name, options, code):
    subject = subject_of(name, tmp_path)
    wait(subject, 0, HALVES[0])
    before = files_of(subject.directory)
    ended, document = run([*subject.words, *options])
    assert ended == code, document
    assert files_of(subject.directory) == before
    then = NOW_MS / 1000 - 11 * 60
    os.utime(subject.directory / WAITING, (then, then))
    assert subject.run()[0] == 0
    subject.check_whole()
