"""Entries in the order of their partitions: what regrouping manifests goes by.

A cluster is a set of entries whose chosen partition fields have the same values; its rank is its
place in the order of those values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from icectl.entries.columns.values import Integers, distinct_count
from icectl.entries.partition.key import decode_key, sort_key
from icectl.entries.rows import GROUP_KEYS, Entries, RawEntries, part, take
from icectl.format.types import Type


@dataclass(frozen=True, slots=True)
class Clusters:
    """The rank of each entry's cluster, and how many clusters there are."""

    ranks: Integers
    count: int


def clusters(
    entries: Entries | RawEntries, types: Sequence[Type | None], positions: Sequence[int]
) -> Clusters:
    """Rank entries of one spec by the partition fields at some positions; none: one cluster.

    Order: ranks are those of the values, null first, NaN last (R-084).
    Raises: CorruptTable R-068.
    """
    encoded = entries.table["partition_key"].combine_chunks().dictionary_encode()
    keys = encoded.dictionary.to_pylist()
    values = [decode_key(key, types) for key in keys]
    tuples = [tuple(sort_key(one[position]) for position in positions) for one in values]
    distinct = sorted(set(tuples))
    places = {values: place for place, values in enumerate(distinct)}
    rank_of_key = np.array([places[values] for values in tuples], np.int64)
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    ranks = rank_of_key[indices] if len(keys) else np.zeros(0, np.int64)
    return Clusters(ranks, len(distinct))


def clusters_of_specs(entries: Entries | RawEntries) -> Clusters:
    """Rank entries of several specs by spec and partition; values do not order them."""
    pairs = entries.table.select(GROUP_KEYS).combine_chunks()
    found = list(zip(*(pairs[name].to_pylist() for name in GROUP_KEYS), strict=True))
    places = {pair: place for place, pair in enumerate(sorted(set(found)))}
    return Clusters(np.array([places[pair] for pair in found], np.int64), len(places))


def one_cluster(entries: Entries | RawEntries) -> Integers:
    """Ranks of entries that are all of one cluster."""
    return np.zeros(len(entries), np.int64)


def spread(found: Clusters, manifests: Integers) -> int:
    """Count the pairs of a manifest and a cluster in it."""
    return distinct_count(manifests * max(found.count, 1) + found.ranks)


def pieces(ranks: Integers, sizes: npt.NDArray[np.float64], piece_size: float) -> Integers:
    """Number the pieces that entries are cut into, one after the other in the order of ranks.

    Shape: one number for each entry, from 0 without a gap. `sizes` are estimates.
    """
    order = np.argsort(ranks, kind="stable")
    starts = np.cumsum(sizes[order]) - sizes[order]
    cut = (starts // piece_size).astype(np.int64)
    numbers = np.empty(len(ranks), np.int64)
    numbers[order] = np.unique(cut, return_inverse=True)[1]
    return numbers


def pieces_of(entries: Entries | RawEntries, size: int) -> Integers:
    """Number the pieces of so many entries each. Shape: as pieces."""
    return np.arange(len(entries), dtype=np.int64) // size


def per_manifest(
    entries: Entries | RawEntries, values: Mapping[int, float]
) -> npt.NDArray[np.float64]:
    """Repeat for each entry the value of its manifest."""
    highest = max(values, default=0)
    table = np.zeros(highest + 1)
    table[list(values)] = list(values.values())
    return np.asarray(table[entries.table["manifest"].to_numpy()], np.float64)


def by_piece(entries: Entries, numbers: Integers) -> Callable[[range], Entries]:
    """Return how to have the entries of some pieces that follow each other.

    Order: that of the pieces; entries of a piece as they come.
    Cost: memory for the entries of these pieces; none where all entries come in this order.
    """
    starts = [0, *np.cumsum(np.bincount(numbers)).tolist()]
    order = None if (np.diff(numbers) >= 0).all() else np.argsort(numbers, kind="stable")

    def of(pieces: range) -> Entries:
        """Return the entries of some pieces."""
        start, stop = starts[pieces.start], starts[pieces.stop]
        return part(entries, start, stop) if order is None else take(entries, order[start:stop])

    return of
