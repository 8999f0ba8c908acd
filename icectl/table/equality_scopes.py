"""Which data files equality deletes apply to, by what tasks say of both (R-112).

`icectl/entries/deletes.py` says it of all live entries together. Here either need not be live.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from icectl.table.rewrite_tasks import DeleteFile

Scope = tuple[int, bytes] | None
"""The spec and partition whose data files an equality delete applies to; None for all."""


def scope_of(delete: DeleteFile, global_spec_ids: Collection[int]) -> Scope:
    """Return the scope of an equality delete file."""
    is_global = delete.spec_id in global_spec_ids
    return None if is_global else (delete.spec_id, delete.partition_key)


@dataclass(frozen=True, slots=True)
class DeleteChain:
    """Equality deletes of one scope and the same columns, by sequence number."""

    equality_ids: tuple[int, ...]
    files: Sequence[DeleteFile]
    numbers: Sequence[int]


class DeleteChains:
    """Equality deletes, those of one scope and the same columns in a chain each."""

    def __init__(self, deletes: Iterable[DeleteFile], global_spec_ids: Collection[int]) -> None:
        groups: dict[tuple[Scope, tuple[int, ...]], list[DeleteFile]] = {}
        for delete in deletes:
            key = scope_of(delete, global_spec_ids), tuple(sorted(delete.equality_ids))
            groups.setdefault(key, []).append(delete)
        self.chains: list[DeleteChain] = []
        self._by_scope: dict[Scope, list[int]] = {}
        for (scope, ids), files in groups.items():
            files.sort(key=lambda file: (file.sequence_number, file.location))
            self._by_scope.setdefault(scope, []).append(len(self.chains))
            self.chains.append(DeleteChain(ids, files, [file.sequence_number for file in files]))

    def applying(
        self, spec_id: int, partition_key: bytes, sequence_number: int
    ) -> list[tuple[int, int]]:
        """Return the chains that apply to a data file, with the rank of their first such delete.

        All later deletes of a chain apply too.
        """
        found = []
        for scope in (None, (spec_id, partition_key)):
            for at in self._by_scope.get(scope, ()):
                rank = bisect_right(self.chains[at].numbers, sequence_number)
                if rank < len(self.chains[at].numbers):
                    found.append((at, rank))
        return found
