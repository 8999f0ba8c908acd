"""Deletes by position merged: of every format, into delete files and vectors, read again."""

import contextlib
import gc
import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable, SelfCheckFailed, Unsupported
from icectl.files.deletion_vectors import dv_blob, read_dv
from icectl.files.parquet.write import ParquetOptions
from icectl.files.puffin import read_blob, read_puffin, write_puffin
from icectl.rows.deleted_positions import DeletionVector, PositionDeletes
from icectl.rows.merge_deletes import merged_positions, write_delete_file, write_vectors
from icectl.rows.rewrite_data import DeletesOfGroup
from icectl.rows.write_data import FileOutputs
from tests.builders.data_files import MemoryFiles, identified, table

PATH, POS = (
    identified("file_path", pa.string(), 2_147_483_546),
    identified("pos", pa.int64(), 2_147_483_545),
)
ONE, OTHER = "s3://b/t/data/1.parquet", "s3://b/t/data/2.parquet"


def position_deletes(
    files: MemoryFiles, location: str, rows, applies_to=(ONE, OTHER), file_format="parquet"
) -> PositionDeletes:
    file = files.add(location, table([PATH, POS], rows), file_format)
    return PositionDeletes(file, frozenset(applies_to))


def vector(files: MemoryFiles, location: str, data_file: str, positions) -> DeletionVector:
    content = write_puffin([dv_blob(positions, data_file)], {})
    files.content[location] = content
    (blob,) = read_puffin(content).blobs
    return DeletionVector(location, blob.offset, blob.length, len(set(positions)), data_file)


def merged(files: MemoryFiles, deletes: DeletesOfGroup) -> dict[str, list[int]]:
    found = merged_positions([ONE, OTHER], deletes, files.outputs())
    return {location: positions.tolist() for location, positions in found.items()}


def test_r115_positions_of_files_and_vectors_are_put_together():
    files = MemoryFiles()
    deletes = DeletesOfGroup(
        (
            position_deletes(files, "a", [(ONE, 7), (OTHER, 0), (ONE, 2)]),
            position_deletes(files, "b", [(ONE, 2), (ONE, 3)], file_format="avro"),
            position_deletes(files, "c", [(OTHER, 5), ("s3://b/t/x", 1)], file_format="orc"),
        ),
        (vector(files, "d", ONE, [9, 1]),),
    )
    assert merged(files, deletes) == {ONE: [1, 2, 3, 7, 9], OTHER: [0, 5]}


def test_a_puffin_file_is_opened_once_however_many_vectors_of_it_are_read():
    files = MemoryFiles()
    blobs = [dv_blob([1, 5], ONE), dv_blob([2], OTHER)]
    files.content["s3://b/t/v.puffin"] = write_puffin(blobs, {})
    found = read_puffin(files.content["s3://b/t/v.puffin"]).blobs
    vectors = [
        DeletionVector("s3://b/t/v.puffin", blob.offset, blob.length, count, name)
        for blob, count, name in zip(found, (2, 1), (ONE, OTHER), strict=True)
    ]
    assert merged(files, DeletesOfGroup(vectors=tuple(vectors))) == {ONE: [1, 5], OTHER: [2]}
    assert files.opened == ["s3://b/t/v.puffin"]


def test_r111_a_file_that_deletes_do_not_apply_to_gets_none_of_them():
    files = MemoryFiles()
    deletes = position_deletes(files, "a", [(ONE, 7), (OTHER, 0)], applies_to=[OTHER])
    assert merged(files, DeletesOfGroup((deletes,))) == {OTHER: [0]}


def test_a_path_in_another_spelling_is_refused():
    files = MemoryFiles()
    deletes = position_deletes(files, "a", [(ONE.replace("s3:", "s3a:"), 7)])
    with pytest.raises(Unsupported, match=r"write the path of s3://b/t/data/1\.parquet"):
        merged(files, DeletesOfGroup((deletes,)))


def test_r121_positions_below_the_first_row_are_damage():
    files = MemoryFiles()
    deletes = position_deletes(files, "a", [(ONE, -1)])
    with pytest.raises(CorruptTable, match="a position is below 0") as caught:
        merged(files, DeletesOfGroup((deletes,)))
    assert caught.value.rule == "R-121"


def test_r118_a_vector_of_another_cardinality_is_damage():
    files = MemoryFiles()
    found = replace(vector(files, "d", ONE, [9, 1]), record_count=3)
    with pytest.raises(CorruptTable, match="has 2 positions where 3 are stated"):
        merged(files, DeletesOfGroup(vectors=(found,)))


POSITIONS = np.array([0, 4, 2**33], np.uint64)


def test_r121_a_delete_file_has_paths_and_positions_by_id_in_order():
    files = MemoryFiles()
    found = write_delete_file(ONE, POSITIONS, "c=1", ParquetOptions(), files.outputs())
    content = files.content[found.location]
    stored = pq.ParquetFile(io.BytesIO(content))
    assert found.location.startswith("out/c=1/")
    assert (found.file_size_in_bytes, found.record_count) == (len(content), 3)
    assert [field.metadata[b"PARQUET:field_id"] for field in stored.schema_arrow] == [
        b"2147483546",
        b"2147483545",
    ]
    assert not any(field.nullable for field in stored.schema_arrow)
    assert stored.read().to_pylist() == [
        {"file_path": ONE, "pos": 0}, {"file_path": ONE, "pos": 4}, {"file_path": ONE, "pos": 2**33}
    ]  # fmt: skip
    assert stored.metadata.metadata[b"delete-type"] == b"position"


def test_vectors_of_several_data_files_share_a_puffin_file():
    files = MemoryFiles()
    one, other = write_vectors(
        {ONE: POSITIONS, OTHER: POSITIONS[:1]}, "icectl tests", files.outputs()
    )
    content = files.content[one.location]
    puffin = read_puffin(content)
    assert puffin.properties == {"created-by": "icectl tests"}
    assert [blob.properties for blob in puffin.blobs] == [
        {"referenced-data-file": ONE, "cardinality": "3"},
        {"referenced-data-file": OTHER, "cardinality": "1"},
    ]
    for made, blob, positions in zip((one, other), puffin.blobs, ([0, 4, 2**33], [0]), strict=True):
        assert (made.location, made.file_size_in_bytes) == (one.location, len(content))
        assert (made.content_offset, made.content_size_in_bytes) == (blob.offset, blob.length)
        assert made.record_count == len(positions)
        assert read_dv(read_blob(content[blob.span], blob)).tolist() == positions


def test_without_a_position_no_puffin_file_is_written():
    files = MemoryFiles()
    assert write_vectors({}, "icectl tests", files.outputs()) == ()
    assert files.content == {}


@pytest.mark.parametrize("is_vector", [False, True])
def test_what_was_written_is_read_again_and_compared(is_vector):
    files, others = MemoryFiles(), MemoryFiles()

    def write(outputs: FileOutputs, positions) -> None:
        if is_vector:
            write_vectors({ONE: positions}, "icectl tests", outputs)
        else:
            write_delete_file(ONE, positions, "", ParquetOptions(), outputs)

    write(others.outputs(), np.array([0, 5, 2**33], np.uint64))
    outputs = replace(files.outputs(), open=others.open)
    with pytest.raises(SelfCheckFailed, match="deletes other rows than were to be deleted"):
        write(outputs, POSITIONS)


class Full(io.BytesIO):
    """Nothing can be written any more, once something was."""

    def write(self, content) -> int:
        if self.tell():
            raise OSError("the disk is full")
        return super().write(content)


def test_a_delete_file_that_cannot_be_written_is_abandoned():
    outputs = replace(MemoryFiles().outputs(), create=lambda _: contextlib.nullcontext(Full()))
    with pytest.raises(OSError, match="the disk is full"):
        write_delete_file(ONE, POSITIONS, "", ParquetOptions(), outputs)
    gc.collect()  # what is let go of writes nothing
