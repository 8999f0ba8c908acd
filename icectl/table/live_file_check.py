"""Whether the live files of snapshots are there, each once in a snapshot, and described alike.

A wrong name in an entry hides the true file: nothing refers to it, and it would be deleted as an
orphan, or with older snapshots.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.file_identity import STATED, StatedFile, contradiction, stated_files
from icectl.checks.live_entries import IS_METADATA, IS_STATISTICS, RowlessFiles
from icectl.entries.columns import NONE, Hashes, Integers, Mask, Positions, distinct_count, mask_of
from icectl.entries.files import (
    FileKind,
    Files,
    ListedFiles,
    are_content,
    distinct,
    files,
    in_order,
    together,
)
from icectl.entries.rows import Entries, RawEntries, Rows, by_row, live, numbers, take, where
from icectl.errors import CorruptTable, MissingFile, Refused, StorageError
from icectl.files.deletion_vectors import read_bitmap
from icectl.files.parquet.schema import field_id
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.rule import REMOVE_STATISTICS
from icectl.format.schema import FILE_PATH
from icectl.format.snapshot import Snapshot
from icectl.storage.location import loosest_key, loosest_keys
from icectl.storage.many_files import FilesByKind, first_of_sizes
from icectl.storage.spill import Spill
from icectl.table.context import TableContext
from icectl.table.known_locations import PARTS, KnownLocations, file_hashes, parts_of, size_hashes
from icectl.table.manifest_lists import distinct_manifests, manifests_by_snapshot
from icectl.table.manifests import scan_manifests
from icectl.table.reading import in_threads
from icectl.table.retention import expiry_of
from icectl.table.stored import FEW, Discrepancy, compare_with_store

_HIDDEN = (
    "nothing was changed, since the metadata may name another file than it means; "
    "`icectl validate TABLE --all-snapshots` names all such files"
)
_CONTRADICTORY = (
    "nothing was changed, since the metadata may name another file than it means; "
    "`icectl validate TABLE --all-snapshots --level footers` compares the files with the entries"
)
_STATISTICS = (FileKind.STATISTICS_FILES, FileKind.PARTITION_STATISTICS_FILES)
_MOST_SUSPECTS = 10_000
"""Kept files as large as files to delete that are looked up: of more the sizes tell nothing."""
_MOST_UNLIKE = 1_000_000
"""Files that a listing shows otherwise than entries: to look for more is to list again."""


_LIVE = pa.schema(
    [
        pa.field("hash", pa.uint64()),
        pa.field("manifest", pa.int32()),
        pa.field("stated", pa.uint64()),
    ]
)
_COMPARED = frozenset({"location", "status", "file_format"})
_ODD, _VECTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0)


class LiveOnce:
    """A check that no snapshot has a file in two live entries, and that all entries of it agree.

    `hashed` returns hashes of the loosest keys of locations.
    Cost: 20 bytes on disk for each live entry; where a hash comes up again, the two manifests once
    more, to compare what it is of. Memory for files that were added again.
    """

    columns = frozenset(
        {"content", "status", "location", "file_format", "record_count", "file_size_in_bytes"}
        | {"snapshot_id"}
    )
    """What has to be read of entries."""

    def __init__(self, hashed: Callable[[pa.ChunkedArray], Hashes]) -> None:
        self._hashed = hashed
        self._entries = Spill(_LIVE, PARTS)
        self._numbers: dict[str, int] = {}
        self._roots: set[int] = set()
        self._dead: dict[str, bytes] = {}

    def add(self, manifests: Sequence[ManifestFile], alive: RawEntries, hashes: Hashes) -> None:
        """Take in live entries, whose `manifest` is a place in `manifests`.

        `hashes` are those of their locations.
        """
        places = alive.table["manifest"].to_numpy()
        numbers, added_by = [0] * len(manifests), [0] * len(manifests)
        is_compared = np.ones(len(places), np.bool_)
        for place in np.flatnonzero(np.bincount(places)).tolist():
            item, new = manifests[place], len(self._numbers)
            path = item.manifest_path
            numbers[place] = number = self._numbers.setdefault(path, new)
            added_by[place] = item.added_snapshot_id or 0
            if item.in_root:
                self._roots.add(number)
            elif number == new:
                if item.dead:
                    self._dead[path] = item.dead
            elif (first := self._dead.get(path, b"")) != item.dead:
                # Of a leaf that was taken in, rows that were dead are new.
                dead = read_bitmap(first) if first else NONE
                revived = np.isin(alive.table["manifest_pos"].to_numpy(), dead)
                is_compared &= (places != place) | revived
        listed_in, added = np.array(numbers, np.int32)[places], np.array(added_by)[places]
        columns = [hashes, listed_in, stated_numbers(alive, added)]
        if not is_compared.all():
            columns = [column[is_compared] for column in columns]
        batch = pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=_LIVE)
        self._entries.add(parts_of(columns[0]), batch)

    def check(
        self,
        context: TableContext,
        metadata: TableMetadata,
        lists: Mapping[int, Sequence[ManifestFile]],
    ) -> None:
        """Do nothing where no snapshot has a file twice, and no file is described in two ways.

        Raises: CorruptTable R-063, R-066, V4-120.
        """
        pairs, doubtful, owners = self._repeats()
        if not pairs and not len(doubtful):
            return
        paths = list(self._numbers)
        listed = [
            (id_, {self._numbers.get(item.manifest_path) for item in manifests})
            for id_, manifests in lists.items()
        ]
        for first, second in sorted(pairs):
            for id_, of_list in listed:
                if first in of_list and second in of_list:
                    named = {paths[first], paths[second]}
                    both = [item for item in lists[id_] if item.manifest_path in named]
                    if _have_in_common(context, metadata, both):
                        is_tree = any(item.in_root or item.status is not None for item in both)
                        raise CorruptTable(
                            f"snapshot {id_}: a file is live in `{paths[first]}`, and again in "
                            f"`{paths[second]}`",
                            rule="V4-120" if is_tree else "R-066",
                            hint=_HIDDEN,
                        )  # R-066, V4-120
                    if not any(item.dead for item in both):
                        break  # two files of one hash
        if len(doubtful):
            named = {paths[number] for number in owners}
            described = {
                (item.manifest_path, item.content): item for rows in lists.values() for item in rows
            }
            chosen = [item for item in described.values() if item.manifest_path in named]
            chosen = [replace(item, dead=b"") for item in chosen]
            self._check_alike(context, metadata, chosen, doubtful, lists)

    def _check_alike(
        self,
        context: TableContext,
        metadata: TableMetadata,
        manifests: Sequence[ManifestFile],
        doubtful: Hashes,
        lists: Mapping[int, Sequence[ManifestFile]],
    ) -> None:
        """Do nothing where entries of one file agree. Raises: CorruptTable R-063."""
        known: dict[str, tuple[StatedFile, str]] = {}
        vectors: set[str] = set()
        for part in scan_manifests(context, metadata, manifests, STATED | self.columns):
            is_doubtful = np.isin(self._hashed(part.rows.table["location"]), doubtful)
            alive = live(where(part.rows, is_doubtful))
            formats, places = (
                alive.table[name].to_pylist() for name in ("file_format", "manifest")
            )
            every = stated_files(alive, metadata.current_schema.fields)
            for (location, stated), format_, place in zip(every, formats, places, strict=True):
                key, said = loosest_key(location), None
                path = manifests[place].manifest_path
                if format_ == FileFormat.PUFFIN:
                    vectors.add(key)
                else:
                    said = contradiction(known.setdefault(key, (stated, path))[0], stated)
                if key in vectors and key in known:
                    said = "deletion vectors", "rows"
                if said is not None:
                    message = f"`{location}`: one entry says {said[0]}, another {said[1]}"
                    paths = (known[key][1], path)
                    hint = _CONTRADICTORY + _expiry_of_one(metadata, lists, paths)
                    raise CorruptTable(message, rule="R-063", hint=hint)

    def _repeats(self) -> tuple[set[tuple[int, int]], Hashes, set[int]]:
        """Return the manifests that have a file in common, and the files that differ in them.

        A file twice in one manifest pairs it alone. Roots are of one snapshot each: two of them
        are no pair. Files are hashes, beside the manifests that have them.
        """
        pairs: set[tuple[int, int]] = set()
        doubtful, owners_of_doubtful = [np.empty(0, np.uint64)], set[int]()
        count, roots = len(self._numbers), np.array(sorted(self._roots), np.int64)

        def add(first: Integers, second: Integers) -> None:
            codes = np.unique(first * count + second)
            pairs.update(divmod(code, count) for code in codes.tolist())

        for part in self._entries.tables():
            hashes, numbers = part["hash"].to_numpy(), part["manifest"].to_numpy()
            if distinct_count(hashes) == len(hashes):  # sooner than ordering manifests by them
                continue
            order = np.argsort(hashes, kind="stable")
            hashes, numbers = hashes[order], numbers[order].astype(np.int64)
            stated = part["stated"].to_numpy()[order]
            differs = (hashes[1:] == hashes[:-1]) & (stated[1:] != stated[:-1])
            if differs.any():
                doubtful.append(np.unique(hashes[1:][differs]))
                owners_of_doubtful.update(numbers[np.isin(hashes, doubtful[-1])].tolist())
            hashes, numbers = hashes[stated != _VECTOR], numbers[stated != _VECTOR]
            of_root = np.isin(numbers, roots)
            own, owners = hashes[of_root], numbers[of_root]
            hashes, numbers = hashes[~of_root], numbers[~of_root]
            same = np.flatnonzero(hashes[1:] == hashes[:-1])
            apart = 1
            while len(same):
                add(numbers[same], numbers[same + apart])
                apart += 1
                same = same[same + apart < len(hashes)]
                same = same[hashes[same] == hashes[same + apart]]
            at = np.searchsorted(hashes, own)
            while len(at):
                inside = at < len(hashes)
                at, own, owners = at[inside], own[inside], owners[inside]
                is_same = hashes[at] == own
                at, own, owners = at[is_same], own[is_same], owners[is_same]
                add(owners, numbers[at])
                at = at + 1
        return pairs, np.concatenate(doubtful), owners_of_doubtful


def stated_numbers(alive: RawEntries, added_by: Integers) -> Hashes:
    """Return a number of the row count, size and snapshot id of each entry, which may be null.

    Tools that move tables write new position deletes: their sizes do not count. Vectors share
    files, and have the same number.
    """
    ids, sizes = alive.table["snapshot_id"], numbers(alive, "file_size_in_bytes")
    if ids.null_count:
        ids = pc.coalesce(ids, pa.array(added_by))
    is_data = alive.table["content"].to_numpy() == int(Content.DATA)
    if not is_data.all():
        sizes = np.where(is_data, sizes, 0)
    stated = numbers(alive, "record_count").view(np.uint64) * _ODD
    stated += sizes.view(np.uint64)
    stated *= _ODD
    stated += ids.to_numpy().view(np.uint64)
    is_vector = alive.table["file_format"].to_numpy() == int(FileFormat.PUFFIN)
    return np.where(is_vector, _VECTOR, stated) if is_vector.any() else stated


def _expiry_of_one(
    metadata: TableMetadata, lists: Mapping[int, Sequence[ManifestFile]], paths: Sequence[str]
) -> str:
    """Name the expiry after which one of some manifests is gone; nothing where no branch may go."""
    heads = {ref.snapshot_id for ref in metadata.refs.values() if ref.type == "branch"}
    heads |= {metadata.current_snapshot_id or 0}
    for path in paths:
        ids = [
            id_ for id_, listed in lists.items() if path in (one.manifest_path for one in listed)
        ]
        if ids and heads.isdisjoint(ids):
            expiry = expiry_of(metadata, ids, "TABLE")
            return f"; if snapshot {ids[0]} describes it wrongly, {expiry}"
    return ""


def _have_in_common(
    context: TableContext, metadata: TableMetadata, both: Sequence[ManifestFile]
) -> bool:
    """Return whether manifests have a live file in common, or one has it twice, by its text.

    Raises: as scan_manifests.
    """
    read = scan_manifests(context, metadata, both, _COMPARED)
    entries = [live(part.rows) for part in read]
    are_files = [pc.not_equal(one.table["file_format"], int(FileFormat.PUFFIN)) for one in entries]
    places = [
        where(one, mask).table["location"] for one, mask in zip(entries, are_files, strict=True)
    ]
    keys = loosest_keys(pa.chunked_array([c for one in places for c in one.chunks], pa.string()))
    return bool(len(pc.unique(keys)) < len(keys))


def check_apart(alive: Rows, rowless: RowlessFiles) -> None:
    """Do nothing where no live entry names a file of the table that holds no rows.

    Raises: CorruptTable R-063, R-140.
    """
    locations = alive.table["location"]
    for among, is_statistics in ((rowless.metadata_among, False), (rowless.statistics_among, True)):
        for place in np.flatnonzero(among(alive.table)).tolist():
            raise _without_rows(locations[place].as_py(), is_statistics=is_statistics)


def _without_rows(location: str, *, is_statistics: bool) -> CorruptTable:
    """Return the error of an entry that names a file of the table that holds no rows."""
    if is_statistics:
        message = f"`{location}` {IS_STATISTICS}"
        return CorruptTable(message, rule="R-140", hint=REMOVE_STATISTICS)
    return CorruptTable(f"`{location}` {IS_METADATA}", rule="R-063", hint=_HIDDEN)


def check_spellings(named: pa.ChunkedArray, described: Files) -> None:
    """Do nothing where no location is that of a file without rows, however it is spelled.

    Raises: CorruptTable R-063, R-140.
    """
    for location, key in zip(named.to_pylist(), loosest_keys(named).to_pylist(), strict=True):
        place = pc.index(described.table["key"], key).as_py()
        if place >= 0:
            is_statistics = described.table["kind"][place].as_py() in _STATISTICS
            raise _without_rows(location, is_statistics=is_statistics)


class LiveListed:
    """A check that live files below `places` were listed, or are there now.

    `resized` are those that have another size than entries say, with the stated sizes in bytes, but
    for position delete files: these are `rewritten`.
    """

    def __init__(
        self,
        places: Sequence[str],
        manifests: Sequence[ManifestFile],
        listed: KnownLocations,
    ) -> None:
        self._places = places
        self._listed = listed
        self.resized: dict[str, int] = {}
        self.rewritten: dict[str, int] = {}
        self._absent: dict[str, None] = {}
        self._dead: dict[str, Positions] = {}
        for item in manifests:  # what one snapshot has removed may have expired
            if item.dead:
                known = self._dead.get(item.manifest_path, np.empty(0, np.uint64))
                self._dead[item.manifest_path] = np.union1d(known, read_bitmap(item.dead))

    def add(self, manifests: Sequence[ManifestFile], alive: RawEntries) -> None:
        """Take in live entries, whose `manifest` is a place in `manifests`.

        Raises: Refused, where too many are not as the listing shows.
        """
        stated = alive.table["location"], alive.table["file_size_in_bytes"]
        listed = self._listed.contains_hashes(file_hashes(*stated))
        if listed.all():
            return
        other = where(alive, ~listed)
        inside = _are_below(loosest_keys(other.table["location"]), self._places)
        columns = ("location", "file_size_in_bytes", "content", "file_format")
        rows = by_row(other, *columns, "manifest", "manifest_pos")
        for (location, size, content, kind, place, at), is_inside in zip(
            rows, inside.tolist(), strict=True
        ):
            dead = self._dead.get(manifests[place].manifest_path, ())
            if not is_inside or at in dead:
                continue
            self._absent[location] = None
            is_file = content == Content.POSITION_DELETES and kind != FileFormat.PUFFIN
            (self.rewritten if is_file else self.resized)[location] = size
        if len(self.resized) > _MOST_UNLIKE:
            raise Refused(
                f"the listing shows more than {_MOST_UNLIKE:,} live files with another size than "
                "their entries, or not at all",
                hint="if it is an inventory, use a newer one or list without `--inventory`",
                id="unlike-listing",
            )

    def check(self, context: TableContext, metadata: TableMetadata) -> None:
        """Look up what was not listed. Raises: CorruptTable R-034; StorageError."""
        places = list(self._absent)
        absent = files(places, places, FileKind.DATA_FILES, [None] * len(places))
        for item in compare_with_store(context, absent, metadata.location).discrepancies:
            if item.problem is None:
                _refuse(item)


def check_resized(
    context: TableContext,
    metadata: TableMetadata,
    resized: Mapping[str, int],
    rewritten: Mapping[str, int],
    to_delete: Iterable[ListedFiles],
) -> None:
    """Do nothing where no file to delete may be the true one of an entry that names another.

    `resized` are files that have another size than entries say, with the stated sizes in bytes, and
    `rewritten` such position delete files.
    Raises: CorruptTable R-063; as with_their_rows.
    """
    stated = {**resized, **rewritten}
    alike = first_of_sizes(to_delete, set(stated.values()))
    places = [location for location, size in rewritten.items() if size in alike]
    right = with_their_rows(context, metadata, metadata.snapshots, places)
    for location, size in stated.items():
        if size in alike and location not in right:
            raise CorruptTable(
                f"`{location}` does not have {size:,} bytes, as its entry says; "
                f"`{alike[size]}`, which would be deleted, has, and may be meant",
                rule="R-063",
                hint=_HIDDEN,
            )


def missing_statistics(
    context: TableContext,
    metadata: TableMetadata,
    named: Files,
    places: Sequence[str],
    listed: KnownLocations,
    to_delete: Iterable[ListedFiles],
) -> list[str]:
    """Return the statistics files below `places` that neither were listed nor are there now.

    Only the location of an entry is taken to be wrong: then one of the files to delete, which is as
    large as the entry says, may be the true one.
    Raises: CorruptTable R-140, where it may; StorageError.
    Cost: a look-up for each file that was not listed, or is as large as one to delete.
    """
    stored = named.table["location"]
    is_listed = listed.contains_hashes(file_hashes(stored, named.table["size_bytes"]))
    is_absent = _are_below(named.table["key"], places) & ~is_listed
    stated = named.table["size_bytes"]
    alike = first_of_sizes(to_delete, set(stated.drop_null().to_pylist()))
    is_alike = mask_of(pc.is_in(stated, pa.array(list(alike), pa.int64()), skip_nulls=True))
    is_there = np.zeros(len(named), np.bool_)  # by the very name that the listing has
    for place in places:
        is_there |= mask_of(pc.starts_with(stored, f"{place.rstrip('/')}/"))
    chosen = is_absent | (is_alike & is_there)
    if not chosen.any():
        return []
    absent = set(stored.filter(pa.array(is_absent)).to_pylist())
    missing = []
    doubtful = Files(named.table.filter(pa.array(chosen)))
    for item in compare_with_store(context, doubtful, metadata.location).discrepancies:
        if item.found is None and item.location not in absent:  # it was listed in another spelling
            continue
        if item.expected is not None and item.expected in alike:
            found = "is missing" if item.found is None else f"has {item.found:,} bytes"
            raise CorruptTable(
                f"statistics file `{item.location}` {item.problem or found}; "
                f"`{alike[item.expected]}`, which would be deleted, may be it: it has "
                f"{item.expected:,} bytes, as the entry says",
                rule="R-140",
                hint=REMOVE_STATISTICS,
            )
        if item.found is None and item.problem is None:
            missing.append(item.location)
    return missing


def mismatched_statistics(
    context: TableContext, metadata: TableMetadata, to_delete: FilesByKind, sizes: Mapping[str, int]
) -> list[str]:
    """Return those of some files that go as statistics, and are not as large as their entry says.

    An entry may name another file than it means. `sizes` in bytes by loosest key, where known.
    Cost: a look-up for each statistics file whose size is not known.
    """
    statistics = together(part for kind in _STATISTICS for part in to_delete.of_kind(kind))
    mismatched, unknown = [], []
    for row in statistics.table.to_pylist():
        unknown.append(row["key"] not in sizes)
        if sizes.get(row["key"], row["size_bytes"]) != row["size_bytes"]:
            mismatched.append(row["location"])
    if any(unknown):
        looked_up = Files(statistics.table.filter(pa.array(unknown)))
        compared = compare_with_store(context, looked_up, metadata.location)
        mismatched += [
            one.location
            for one in compared.discrepancies
            if one.found is not None or one.problem is not None
        ]
    return mismatched


def _are_below(keys: pa.ChunkedArray, places: Sequence[str]) -> Mask:
    """Find which loosest keys are of files below places."""
    inside = np.zeros(len(keys), np.bool_)
    for place in places:
        inside |= mask_of(pc.starts_with(keys, loosest_key(place).rstrip("/") + "/"))
    return inside


def check_kept(
    context: TableContext,
    metadata: TableMetadata,
    snapshots: Sequence[Snapshot],
    to_delete: FilesByKind,
    staying: Iterable[Files],
    going: Iterable[Files],
) -> None:
    """Do nothing where no file to delete may be one that stays under another name.

    Only the location of an entry is taken to be wrong: then a file that stays is as large by its
    entry as one to delete, and is not there, or of another size. `snapshots` stay, with `staying`:
    parts with no key in two of them. `going` are those with what entries that go say.
    Raises: CorruptTable R-034, R-063; StorageError; as with_their_rows.
    Cost: a look-up for each file that stays and is as large; for position deletes of another size
    that of with_their_rows.
    """
    sizes = KnownLocations()
    for part in map(_sized_content, to_delete):
        sizes.add_hashes(size_hashes(part.table["size_bytes"]))
    suspects: list[Files] = []
    for part in map(_sized_content, filter(len, staying)):
        is_alike = sizes.contains_hashes(size_hashes(part.table["size_bytes"]))
        alike = Files(part.table.filter(pa.array(is_alike)))
        if len(alike):
            suspects.append(distinct(alike))
        if sum(map(len, suspects)) > _MOST_SUSPECTS:
            return
    if not suspects:
        return
    expected = in_order(together(suspects))
    found = compare_with_store(context, expected, metadata.location).discrepancies
    rewritten = [
        item.location
        for item in found
        if item.found is not None
        and item.kind is FileKind.POSITION_DELETE_FILES
        and not _is_described(item, going)
    ]
    right = with_their_rows(context, metadata, snapshots, rewritten)
    for item in found:
        if item.problem is None and item.location not in right:
            _refuse(item)


def _sized_content(listed: Files) -> Files:
    """Return the data and delete files whose size is known. Order: kept."""
    is_known = mask_of(listed.table["size_bytes"].is_valid())
    return Files(listed.table.filter(pa.array(are_content(listed) & is_known)))


def with_their_rows(
    context: TableContext,
    metadata: TableMetadata,
    snapshots: Sequence[Snapshot],
    places: Collection[str],
) -> frozenset[str]:
    """Return those of some files that hold as many position deletes as live entries say.

    Tools that move tables rewrite these files, and keep the size that entries say: only their rows
    tell them from others.
    Raises: as manifests_by_snapshot and scan_manifests; StorageError.
    Cost: the delete manifests of snapshots, and a footer for each file.
    """
    if not places:
        return frozenset()
    from icectl.files.data_file import open_data_file

    lists = manifests_by_snapshot(context, metadata, snapshots)
    manifests = [
        item
        for item in distinct_manifests(lists.values())
        if item.content is not ManifestContent.DATA
    ]
    named, stated = pa.array(places, pa.string()), set[tuple[str, int, int]]()
    for part in scan_manifests(context, metadata, manifests, _COMPARED | {"record_count"}):
        alive = live(part.rows)
        of_places = where(alive, mask_of(pc.is_in(alive.table["location"], named)))
        stated.update(by_row(of_places, "location", "file_format", "record_count"))

    def has_rows(one: tuple[str, int, int]) -> bool:
        place, file_format, count = one
        try:
            with context.store.open(place) as file:
                opened = open_data_file(file, FileFormat(file_format).name)
                is_of_deletes = FILE_PATH in map(field_id, opened.schema)
                return is_of_deletes and opened.record_count == count
        except (CorruptTable, FileNotFoundError):
            return False

    each = sorted(stated)
    right = in_threads(has_rows, each, [1] * len(each), threads=context.concurrency)
    return frozenset(place for (place, *_), is_right in zip(each, right, strict=True) if is_right)


def check_copies(
    context: TableContext,
    metadata: TableMetadata,
    expected: Files,
    listed: Iterable[pa.Table] | None = None,
) -> None:
    """Do nothing where files are there, and half as large as entries say: those may be wrong.

    Raises: CorruptTable R-034, R-063; StorageError. Cost: as compare_with_store.
    """
    for item in compare_with_store(context, expected, metadata.location, listed).discrepancies:
        if item.problem is not None:
            raise StorageError(f"`{item.location}`: {item.problem}")
        if item.found is None or item.found * 2 < (item.expected or 0):
            _refuse(item)


def check_largest(context: TableContext, metadata: TableMetadata, data: Entries) -> None:
    """Do nothing where the largest of some data files are at least half as large as entries say.

    Raises: CorruptTable R-034, R-063; StorageError. Cost: a look-up for each of 64 files.
    """
    sizes = numbers(data, "file_size_in_bytes")
    largest = take(data, np.sort(np.argsort(sizes, kind="stable")[-FEW:]))
    places, stated = zip(*by_row(largest, "location", "file_size_in_bytes"), strict=True)
    expected = files(places, places, FileKind.DATA_FILES, stated)
    for item in compare_with_store(context, expected, metadata.location).discrepancies:
        if item.problem is None and 2 * (item.found or 0) < (item.expected or 0):
            _refuse(item)


def _is_described(item: Discrepancy, others: Iterable[Files]) -> bool:
    """Return whether one of some files has the key of another, and the size that is there."""
    key, size = loosest_key(item.location), item.found
    same = (
        pc.and_(pc.equal(part.table["key"], key), pc.equal(part.table["size_bytes"], size))
        for part in others
    )
    return any(pc.any(mask).as_py() for mask in same)


def _refuse(item: Discrepancy) -> None:
    if item.found is None:
        error = MissingFile(item.location)
        error.hint = _HIDDEN
        raise error
    message = f"`{item.location}` has {item.found:,} bytes, its entry says {item.expected:,}"
    raise CorruptTable(message, rule="R-063", hint=_HIDDEN)
