"""Files that a table does not reach: which are orphans, and why the others stay."""

import pyarrow as pa
import pytest

from icectl.plan.remove_orphans import OrphanRule, Verdict
from icectl.storage.listing import LISTING_SCHEMA
from icectl.table.known_locations import KnownLocations
from icectl.table.unreached import metadata_files, unreached

TABLE = "s3://bucket/wh/_db/t"
OLD, NEW = 1_000, 2_000
RULE = OrphanRule(older_than_ms=NEW, bases=(TABLE,))


def listing(*names: str, modified_ms: int | None = OLD) -> pa.RecordBatch:
    columns = [
        pa.array([f"{TABLE}/{name}" for name in names], pa.string()),
        pa.array(range(len(names)), pa.int64()),
        pa.array([modified_ms] * len(names), pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA)


def known(*locations: str) -> KnownLocations:
    found = KnownLocations()
    found.add(pa.array(locations, pa.string()))
    return found


def verdicts(
    batch: pa.RecordBatch, reached: KnownLocations | None = None, rule: OrphanRule = RULE
) -> dict[str, Verdict]:
    found = unreached(batch, KnownLocations() if reached is None else reached, rule)
    return {
        location.removeprefix(f"{TABLE}/"): Verdict(code)
        for location, code in zip(
            found["location"].to_pylist(), found["verdict"].to_pylist(), strict=True
        )
    }


def test_rule_36_an_orphan_is_listed_old_and_not_reached():
    batch = listing("data/a.parquet", "data/b.parquet", "metadata/m.avro")
    found = unreached(batch, known(f"{TABLE}/data/a.parquet"), RULE)
    assert found.to_pylist() == [
        {
            "location": f"{TABLE}/data/b.parquet", "size_bytes": 1, "modified_ms": OLD,
            "verdict": 0,
        },
        {
            "location": f"{TABLE}/metadata/m.avro", "size_bytes": 2, "modified_ms": OLD,
            "verdict": 0,
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    "spelling",
    [
        "s3a://bucket/wh/_db/t/data/a b.parquet",
        "s3://elsewhere/wh/_db/t/data/a b.parquet",
        "/wh/_db/t/data/a b.parquet",
        "s3://bucket/wh/_db/t//data/a b.parquet",
        "s3://bucket/wh/_db/t/data/a%20b.parquet",
    ],
)
def test_any_spelling_that_matches_keeps_a_file(spelling: str):
    assert verdicts(listing("data/a b.parquet"), known(spelling)) == {}


@pytest.mark.parametrize(
    ("modified_ms", "verdict"),
    [
        (NEW - 1, Verdict.ORPHAN),
        (NEW, Verdict.RECENT),
        (NEW + 1, Verdict.RECENT),
        (None, Verdict.WITHOUT_TIME),
        (0, Verdict.ORPHAN),
    ],
)
def test_only_what_is_older_than_the_limit_goes(modified_ms: int | None, verdict: Verdict):
    batch = listing("data/a.parquet", modified_ms=modified_ms)
    assert verdicts(batch) == {"data/a.parquet": verdict}


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("_SUCCESS", Verdict.HIDDEN),
        (".DS_Store", Verdict.HIDDEN),
        ("data/_temporary/0/a.parquet", Verdict.HIDDEN),
        ("data/.staging/a.parquet", Verdict.HIDDEN),
        ("data/a_b/.c.d/x.parquet", Verdict.HIDDEN),
        ("data/a_b/c.d/x_.parquet", Verdict.ORPHAN),
        ("data/_day=1/a.parquet", Verdict.ORPHAN),
        ("data/.n%C3%A4me=1/a.parquet", Verdict.ORPHAN),
        ("data/.näme=1/a.parquet", Verdict.ORPHAN),
        ("data/_day=1/_tmp/a.parquet", Verdict.HIDDEN),
        ("data/_days=1/a.parquet", Verdict.HIDDEN),
        ("data/_day/a.parquet", Verdict.HIDDEN),
        ("data/.day=1/a.parquet", Verdict.HIDDEN),
    ],
)
def test_hidden_paths_stay_unless_a_partition_field_begins_so(name: str, verdict: Verdict):
    rule = OrphanRule(NEW, (TABLE,), partition_names=("id", "_day", ".näme"))
    assert verdicts(listing(name), rule=rule) == {name: verdict}


UUID = "6d1a4d1e-6b0f-4a53-9f4f-1f0d3a0f1c11"


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("metadata/.icectl-42-0-v9.metadata.json", Verdict.ORPHAN),
        ("metadata/.icectl-42-1-version-hint.text", Verdict.ORPHAN),
        (f"metadata/.icectl-42-2-icectl-compact-{UUID}.json", Verdict.ORPHAN),
        (f"metadata/.icectl-probe-{UUID}", Verdict.ORPHAN),
        (f"data/a=1/.icectl-42-3-00000-{UUID}.parquet", Verdict.ORPHAN),
        (f".icectl-probe-{UUID}", Verdict.ORPHAN),
        ("metadata/.icectl-v9.metadata.json", Verdict.HIDDEN),
        (f"_x/.icectl-probe-{UUID}", Verdict.HIDDEN),
        (f".icectl-probe-{UUID}/a.parquet", Verdict.HIDDEN),
    ],
)
def test_what_killed_runs_were_writing_is_not_hidden(name: str, verdict: Verdict):
    assert verdicts(listing(name)) == {name: verdict}
    recent = Verdict.RECENT if verdict is Verdict.ORPHAN else verdict
    assert verdicts(listing(name, modified_ms=NEW)) == {name: recent}


def test_what_a_run_is_writing_that_may_still_commit_stays():
    name = f"data/.icectl-42-3-00000-{UUID}.parquet"
    rule = OrphanRule(NEW, (TABLE,), running=(UUID,))
    assert verdicts(listing(name), rule=rule) == {name: Verdict.RUNNING}


def test_a_check_sum_is_judged_as_its_file():
    batch = listing("data/.a.parquet.crc", "data/.b.parquet.crc", "data/.crc", "_x/.a.parquet.crc")
    assert verdicts(batch, known(f"{TABLE}/data/a.parquet")) == {
        "data/.b.parquet.crc": Verdict.ORPHAN,
        "data/.crc": Verdict.HIDDEN,
        "_x/.a.parquet.crc": Verdict.HIDDEN,
    }


def test_a_check_sum_that_the_table_names_itself_stays():
    reached = known(f"{TABLE}/data/.a.parquet.crc")
    assert verdicts(listing("data/.a.parquet.crc", "data/x"), reached) == {"data/x": Verdict.ORPHAN}


def test_journals_are_never_orphans():
    journal = "metadata/icectl-expire-snapshots-6d1a4d1e-6b0f-4a53-9f4f-1f0d3a0f1c11.json"
    assert verdicts(listing(journal, "metadata/icectl.json")) == {
        journal: Verdict.JOURNAL,
        "metadata/icectl.json": Verdict.ORPHAN,
    }


def test_metadata_files_of_whatever_table_are_found():
    batch = listing(
        "metadata/v1.metadata.json",
        "metadata/00001-a.gz.metadata.json",
        "metadata/v2.metadata.json.gz",
        "sub/_backup/metadata/00000-b.metadata.json",
        "metadata/.v1.metadata.json.crc",
        "metadata/.v1.metadata.json",
        "metadata/metadata.json",
        "_delta_log/00000000000000000010.json",
        "_delta_log/_last_checkpoint",
        "sub/.hoodie/hoodie.properties",
        "data/a.parquet",
        "data/a.json",
    )
    assert metadata_files(batch) == [
        f"{TABLE}/metadata/v1.metadata.json",
        f"{TABLE}/metadata/00001-a.gz.metadata.json",
        f"{TABLE}/metadata/v2.metadata.json.gz",
        f"{TABLE}/sub/_backup/metadata/00000-b.metadata.json",
        f"{TABLE}/_delta_log/00000000000000000010.json",
        f"{TABLE}/sub/.hoodie/hoodie.properties",
    ]


def test_files_of_runs_that_may_still_commit_stay():
    rule = OrphanRule(NEW, (TABLE,), running=("6d1a4d1e-6b0f-4a53-9f4f-1f0d3a0f1c11", "0b-1"))
    names = ["data/00000-6d1a4d1e-6b0f-4a53-9f4f-1f0d3a0f1c11.parquet", "metadata/x-0b-1-m0.avro"]
    assert verdicts(listing(*names, "data/6d1a4d1e.parquet"), rule=rule) == {
        names[0]: Verdict.RUNNING,
        names[1]: Verdict.RUNNING,
        "data/6d1a4d1e.parquet": Verdict.ORPHAN,
    }
