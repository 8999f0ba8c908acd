"""Files that a table does not reach: which are orphans, and why the others stay."""

import pyarrow as pa
import pytest

from icectl.storage.listing import LISTING_SCHEMA
from icectl.table.known_locations import KnownLocations
from icectl.table.orphan_verdicts import OrphanRule, OrphanVerdict, listed_metadata, unreached

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
) -> dict[str, OrphanVerdict]:
    found = unreached(batch, KnownLocations() if reached is None else reached, rule)
    return {
        location.removeprefix(f"{TABLE}/"): OrphanVerdict(code)
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
def test_any_spelling_that_matches_keeps_a_file(spelling):
    assert verdicts(listing("data/a b.parquet"), known(spelling)) == {}


@pytest.mark.parametrize(
    ("modified_ms", "verdict"),
    [
        (NEW - 1, OrphanVerdict.ORPHAN),
        (NEW, OrphanVerdict.RECENT),
        (NEW + 1, OrphanVerdict.RECENT),
        (None, OrphanVerdict.WITHOUT_TIME),
        (0, OrphanVerdict.ORPHAN),
    ],
)
def test_only_what_is_older_than_the_limit_goes(modified_ms, verdict):
    batch = listing("data/a.parquet", modified_ms=modified_ms)
    assert verdicts(batch) == {"data/a.parquet": verdict}


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("_SUCCESS", OrphanVerdict.HIDDEN),
        (".DS_Store", OrphanVerdict.HIDDEN),
        ("data/_temporary/0/a.parquet", OrphanVerdict.HIDDEN),
        ("data/.staging/a.parquet", OrphanVerdict.HIDDEN),
        ("data/a_b/.c.d/x.parquet", OrphanVerdict.HIDDEN),
        ("data/a_b/c.d/x_.parquet", OrphanVerdict.ORPHAN),
        ("data/_day=1/a.parquet", OrphanVerdict.ORPHAN),
        ("data/.n%C3%A4me=1/a.parquet", OrphanVerdict.ORPHAN),
        ("data/.näme=1/a.parquet", OrphanVerdict.ORPHAN),
        ("data/_day=1/_tmp/a.parquet", OrphanVerdict.HIDDEN),
        ("data/_days=1/a.parquet", OrphanVerdict.HIDDEN),
        ("data/_day/a.parquet", OrphanVerdict.HIDDEN),
        ("data/.day=1/a.parquet", OrphanVerdict.HIDDEN),
    ],
)
def test_hidden_paths_stay_unless_a_partition_field_begins_so(name, verdict):
    rule = OrphanRule(NEW, (TABLE,), partition_names=("id", "_day", ".näme"))
    assert verdicts(listing(name), rule=rule) == {name: verdict}


UUID = "6d1a4d1e-6b0f-4a53-9f4f-1f0d3a0f1c11"


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("metadata/.icectl-42-0-v9.metadata.json", OrphanVerdict.ORPHAN),
        ("metadata/.icectl-42-1-version-hint.text", OrphanVerdict.ORPHAN),
        (f"metadata/.icectl-42-2-icectl-compact-{UUID}.json", OrphanVerdict.ORPHAN),
        (f"metadata/.icectl-probe-{UUID}", OrphanVerdict.ORPHAN),
        (f"data/a=1/.icectl-42-3-00000-{UUID}.parquet", OrphanVerdict.ORPHAN),
        (f".icectl-probe-{UUID}", OrphanVerdict.ORPHAN),
        ("metadata/.icectl-v9.metadata.json", OrphanVerdict.HIDDEN),
        (f"_x/.icectl-probe-{UUID}", OrphanVerdict.HIDDEN),
        (f".icectl-probe-{UUID}/a.parquet", OrphanVerdict.HIDDEN),
    ],
)
def test_what_killed_runs_were_writing_is_not_hidden(name, verdict):
    assert verdicts(listing(name)) == {name: verdict}
    recent = OrphanVerdict.RECENT if verdict is OrphanVerdict.ORPHAN else verdict
    assert verdicts(listing(name, modified_ms=NEW)) == {name: recent}


def test_what_a_run_is_writing_that_may_still_commit_stays():
    name = f"data/.icectl-42-3-00000-{UUID}.parquet"
    rule = OrphanRule(NEW, (TABLE,), running=(UUID,))
    assert verdicts(listing(name), rule=rule) == {name: OrphanVerdict.RUNNING}


def test_a_check_sum_is_judged_as_its_file():
    batch = listing("data/.a.parquet.crc", "data/.b.parquet.crc", "data/.crc", "_x/.a.parquet.crc")
    assert verdicts(batch, known(f"{TABLE}/data/a.parquet")) == {
        "data/.b.parquet.crc": OrphanVerdict.ORPHAN,
        "data/.crc": OrphanVerdict.HIDDEN,
        "_x/.a.parquet.crc": OrphanVerdict.HIDDEN,
    }


def test_a_check_sum_that_the_table_names_itself_stays():
    reached = known(f"{TABLE}/data/.a.parquet.crc")
    assert verdicts(listing("data/.a.parquet.crc", "data/x"), reached) == {
        "data/x": OrphanVerdict.ORPHAN
    }


def test_journals_are_never_orphans():
    journal = "metadata/icectl-expire-snapshots-6d1a4d1e-6b0f-4a53-9f4f-1f0d3a0f1c11.json"
    assert verdicts(listing(journal, "metadata/icectl.json")) == {
        journal: OrphanVerdict.JOURNAL,
        "metadata/icectl.json": OrphanVerdict.ORPHAN,
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
    assert listed_metadata(batch) == [
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
        names[0]: OrphanVerdict.RUNNING,
        names[1]: OrphanVerdict.RUNNING,
        "data/6d1a4d1e.parquet": OrphanVerdict.ORPHAN,
    }
