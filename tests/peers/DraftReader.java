package org.apache.iceberg;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.mumbling.MumblingBitmaps;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.ByteBuffers;
import org.apache.iceberg.util.JsonUtil;
import org.apache.iceberg.util.StructProjection;

/**
 * Reads Mumbling bitmaps and manifests of the draft with Iceberg's own, package-private classes.
 *
 * <p>One request a line, its words separated by tabs, and one line of JSON for each: {@code bitmap
 * HEX}; {@code pfor HEX}, which encodes; {@code manifest PATH LOCATION SNAPSHOT SEQUENCE
 * FIRST_ROW_ID SCHEMA SPECS}, the last two in JSON, specs one behind the other with a blank line.
 */
public class DraftReader {
  private DraftReader() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] words = line.split("\t");
      Object answer;
      try {
        switch (words[0]) {
          case "bitmap":
            answer = bitmap(words[1]);
            break;
          case "pfor":
            answer = pfor(words[1]);
            break;
          default:
            answer = manifest(words);
        }
      } catch (RuntimeException e) {
        e.printStackTrace();
        answer = Map.of("error", e.toString());
      }
      System.out.println(JsonUtil.mapper().writeValueAsString(answer));
    }
  }

  private static List<Integer> positions(ManifestBitmap bitmap, int end) {
    List<Integer> found = new ArrayList<>();
    for (int position = 0; position < end; position += 1) {
      if (bitmap.isSet(position)) {
        found.add(position);
      }
    }
    return found;
  }

  private static Object bitmap(String hex) {
    byte[] bytes = HexFormat.of().parseHex(hex);
    ManifestBitmap bitmap = MumblingBitmaps.read(ByteBuffer.wrap(bytes));
    int containers = (bytes[4] & 0xFF) | (bytes[5] & 0xFF) << 8;
    return Map.of(
        "cardinality", bitmap.cardinality(), "positions", positions(bitmap, containers * 256));
  }

  private static Object pfor(String hex) throws Exception {
    byte[] bytes = HexFormat.of().parseHex(hex);
    int[] values = new int[bytes.length];
    for (int at = 0; at < bytes.length; at += 1) {
      values[at] = bytes[at] & 0xFF;
    }
    java.lang.reflect.Method encode =
        Class.forName("org.apache.iceberg.mumbling.PFOREncoding")
            .getDeclaredMethod("encode", int[].class, int.class);
    encode.setAccessible(true);
    return hex((ByteBuffer) encode.invoke(null, values, values.length));
  }

  private static String hex(ByteBuffer buffer) {
    return buffer == null ? null : HexFormat.of().formatHex(ByteBuffers.toByteArray(buffer));
  }

  private static Object manifest(String[] words) throws Exception {
    Schema schema = SchemaParser.fromJson(words[6]);
    Map<Integer, PartitionSpec> specs = new LinkedHashMap<>();
    for (int at = 7; at < words.length; at += 1) {
      PartitionSpec spec = PartitionSpecParser.fromJson(schema, words[at]);
      specs.put(spec.specId(), spec);
    }
    FileIO io = new HadoopFileIO(new Configuration());
    long sequenceNumber = Long.parseLong(words[4]);
    Tracking own =
        new TrackingStruct(
            EntryStatus.ADDED, Long.parseLong(words[3]), sequenceNumber, sequenceNumber, null,
            words[5].isEmpty() ? null : Long.parseLong(words[5]), null, null);
    // Iceberg 1.12 reads no leaf whose entry has dead positions, and none of deletes: entries of
    // both are the same, and what is dead is left to who asks.
    ManifestInfo counts = new ManifestInfoStruct(1, 1, 1, 1, 1L, 1L, 1L, 1L, 0L, null);
    ManifestFile manifest =
        TrackedFileAdapters.asManifestFile(
            new TrackedFileStruct(
                own, FileContent.DATA_MANIFEST, 4, words[1], FileFormat.PARQUET, 0L,
                io.newInputFile(words[1]).getLength(), null, null, null, null, null, counts, null,
                null, null));
    List<Object> found = new ArrayList<>();
    List<Integer> ids = new ArrayList<>();
    for (Types.NestedField field : schema.columns()) {
      ids.add(field.fieldId());
    }
    try (V4ManifestReader reader =
        V4ManifestReader.builder(manifest, io, schema, specs)
            .tableLocation(words[2])
            .includeAll()
            .metricsConfig(MetricsConfig.from(Map.of(), schema, null))
            .projectStats(ids)
            .build()) {
      for (TrackedFile file : reader) {
        found.add(entry(file, schema, specs));
      }
    }
    return found;
  }

  private static Map<String, Object> entry(
      TrackedFile file, Schema schema, Map<Integer, PartitionSpec> specs) {
    Map<String, Object> row = new LinkedHashMap<>();
    Tracking tracking = file.tracking();
    row.put("position", tracking.manifestPos());
    row.put("status", tracking.status().id());
    row.put("snapshot_id", tracking.snapshotId());
    row.put("sequence_number", tracking.dataSequenceNumber());
    row.put("file_sequence_number", tracking.fileSequenceNumber());
    row.put("dv_snapshot_id", tracking.dvSnapshotId());
    row.put("first_row_id", tracking.firstRowId());
    row.put("deleted_positions", hex(tracking.deletedPositions()));
    row.put("replaced_positions", hex(tracking.replacedPositions()));
    row.put("content", file.contentType().id());
    row.put("format_version", file.formatVersion());
    row.put("location", file.location());
    row.put("file_format", file.fileFormat().toString().toLowerCase());
    row.put("record_count", file.recordCount());
    row.put("file_size_in_bytes", file.fileSizeInBytes());
    row.put("spec_id", file.specId());
    row.put("sort_order_id", file.sortOrderId());
    row.put("split_offsets", file.splitOffsets());
    row.put("equality_ids", file.equalityIds());
    row.put("key_metadata", hex(file.keyMetadata()));
    DeletionVector vector = file.deletionVector();
    row.put("dv_location", vector == null ? null : vector.location());
    row.put("dv_offset", vector == null ? null : vector.offset());
    row.put("dv_size_in_bytes", vector == null ? null : vector.sizeInBytes());
    row.put("dv_cardinality", vector == null ? null : vector.cardinality());
    ManifestInfo info = file.manifestInfo();
    if (info != null) {
      row.put(
          "counts",
          List.of(
              info.addedFilesCount(), info.existingFilesCount(), info.deletedFilesCount(),
              info.replacedFilesCount(), info.addedRowsCount(), info.existingRowsCount(),
              info.deletedRowsCount(), info.replacedRowsCount(), info.minSequenceNumber()));
      ManifestBitmap dead = info.manifestDeletionVector();
      row.put("dead", dead == null ? null : positions(dead, (int) file.recordCount()));
    }
    if (file.contentType() == FileContent.DATA) {
      DataFile data = TrackedFileAdapters.asDataFile(file, specs);
      PartitionSpec spec = specs.get(data.specId());
      // The reader projects the fields of all specs to those of one so, before it filters.
      StructProjection own =
          StructProjection.create(
              Partitioning.unionPartitionTypes(specs.values()), spec.partitionType());
      row.put("partition", spec.partitionToPath(own.wrap(file.partition())));
      row.put("lower_bounds", hexes(data.lowerBounds()));
      row.put("upper_bounds", hexes(data.upperBounds()));
      row.put("value_counts", data.valueCounts());
      row.put("null_value_counts", data.nullValueCounts());
    }
    return row;
  }

  private static Map<Integer, String> hexes(Map<Integer, ByteBuffer> bounds) {
    if (bounds == null) {
      return null;
    }
    Map<Integer, String> found = new LinkedHashMap<>();
    bounds.forEach((id, bound) -> found.put(id, hex(bound)));
    return found;
  }
}
