"""Listings by obstore: ranges of one prefix at the same time, split at common prefixes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any

import obstore
import pyarrow as pa
from obstore.exceptions import InvalidPathError

from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.storage.buckets.requests import Requests, key_of
from icectl.storage.listing import ListingRows, ListingStep, run_steps
from icectl.storage.store import FileStatus, ListingPart, ListingSplit, Store

_PAGE = 1000
_SPLIT_SECONDS = 2.0
"""How long to look for common prefixes: a prefix with very many objects directly in it has few."""

_SPLIT_LEVELS = 3
_ENOUGH = 8
_LOOKED_UP_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class _Page:
    """Up to 1000 keys behind `after`, of which those from `until` on do not count.

    `stream` goes on where the last page ended, whose keys were `before`.
    """

    after: str = ""
    until: str | None = None
    stream: Any = field(default=None, compare=False)
    before: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class KeysBelow:
    """The keys below one location; `other` gives a store for those that obstore cannot express."""

    requests: Requests
    base: str
    ranges: int
    other: Callable[[], Store]

    @property
    def prefix(self) -> str:
        return f"{key_of(self.base)}/"

    def split(self) -> ListingSplit:
        """Return the first page, and ranges of the keys behind it."""
        first = self.step(_Page())
        parts = [ListingPart(self.base, page.after, page.until) for page in first.next]
        return ListingSplit(first.rows.take_all(), parts)

    def list_parts(
        self, parts: Sequence[ListingPart], concurrency: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield all objects in some ranges, in parallel and in no order."""
        return run_steps([_Page(part.after, part.until) for part in parts], self.step, concurrency)

    def step(self, page: _Page) -> ListingStep[_Page]:
        """Fetch one page; the first of many is followed by one page of every range."""
        stream, entries = self._next(page)
        if entries is None:  # obstore cannot express one of the keys, and the other driver can
            rest = ListingRows()
            for batch in self.other().list_parts([ListingPart(self.base, page.after, page.until)]):
                for row in batch.to_pylist():
                    key = self.prefix + row["location"][len(self.base) + 1 :]
                    if key > page.after and (page.until is None or key < page.until):
                        rest.add(row["location"], row["size_bytes"], row["modified_ms"])
            return ListingStep(rest)
        if not entries:
            return ListingStep(ListingRows())
        objects = self._objects(entries, page)
        rows = ListingRows()
        for entry in objects:
            key = entry["path"]
            if page.until is not None and key >= page.until:
                return ListingStep(rows)
            if key > page.after and key.startswith(self.prefix):
                rows.add(self._location(key), entry["size"], _modified_ms(entry))
        if len(entries) < _PAGE:
            return ListingStep(rows)
        last = entries[-1]["path"]
        if page == _Page() and page.stream is None and self.requests.client.kind != "azure":
            prefixes = sorted(prefix for prefix in self._prefixes() if prefix > last)
            bounds = prefixes[:: max(1, -(-len(prefixes) // self.ranges))]
            ranges = zip([last, *bounds], [*bounds, None], strict=True)  # every key behind `last`
            return ListingStep(rows, tuple(_Page(start, end) for start, end in ranges))
        keys = frozenset(entry["path"] for entry in entries)
        return ListingStep(rows, (replace(page, after=last, stream=stream, before=keys),))

    def directory(self) -> Sequence[FileStatus]:
        listing = self._make(
            lambda store: _expressed(lambda: obstore.list_with_delimiter(store, self.prefix))
        )
        if listing is None:
            return self.other().list_directory(self.base)
        entries = [entry for entry in listing["objects"] if entry["path"].startswith(self.prefix)]
        markers = self._markers([entry["path"] for entry in entries if entry["size"] == 0])
        files = [
            FileStatus(self._location(entry["path"]), int(entry["size"]), _modified_ms(entry))
            for entry in entries
            if entry["path"] not in markers
        ]
        return sorted(files, key=lambda file: file.location)

    def _next(self, page: _Page) -> tuple[Any, Sequence[Mapping[str, Any]] | None]:
        """The stream and its next page; where the stream breaks, a new one goes on behind `after`.

        None in place of a page with keys that obstore cannot express.
        """
        streams = [page.stream]

        def action(store: Any) -> Any:
            stream = streams[0]
            streams[0] = None  # one that has failed does not go on
            if stream is None:
                offset = page.after or None
                stream = iter(obstore.list(store, self.prefix, offset=offset, chunk_size=_PAGE))
            entries = _expressed(lambda: next(stream, ()))
            streams[0] = stream
            return entries

        entries = self._make(action)
        return streams[0], entries

    def _make(self, action: Callable[[Any], Any]) -> Any:
        return self.requests.make("list", self.base, action)

    def _objects(
        self, entries: Sequence[Mapping[str, Any]], page: _Page
    ) -> Sequence[Mapping[str, Any]]:
        """Those that are files. A name that ends in a slash, of a directory's marker, looks like
        the file of the name without.

        Raises: StorageError, where a page comes again, as the listing might then never end.
        """
        doubted = {entry["path"] for entry in entries if entry["size"] == 0}
        for entry, following in pairwise(entries):
            if following["path"].startswith(f"{entry['path']}/"):
                doubted.add(entry["path"])
        certain = [entry["path"] for entry in entries if entry["path"] not in doubted]
        is_behind = bool(page.after) and entries[-1]["path"] <= page.after.rstrip("/")
        comes_again = any(key in page.before for key in certain)
        if is_behind or comes_again or len(set(certain)) < len(certain):
            raise StorageError(
                f"cannot list {locations.redacted(self.base)}: the storage lists the same names "
                "again",
                hint="run the command again; nothing was changed",
            )
        markers = self._markers(sorted(doubted))
        by_path = {entry["path"]: entry for entry in entries if entry["path"] not in markers}
        return list(by_path.values())

    def _markers(self, doubted: Sequence[str]) -> set[str]:
        if not doubted:
            return set()
        with ThreadPoolExecutor(min(len(doubted), _LOOKED_UP_AT_ONCE)) as pool:
            answers = pool.map(self._is_marker, doubted)
            return {key for key, is_marker in zip(doubted, answers, strict=True) if is_marker}

    def _is_marker(self, key: str) -> bool:
        """Return whether there is no file of that name."""
        place = self._location(key)
        if self.requests.client.kind == "azure":
            carried = self.requests.make(
                "look up", place, lambda store: obstore.get(store, key).attributes
            )
            return str(carried.get("hdi_isfolder", "")).lower() == "true"
        try:
            self.requests.head(place)
        except FileNotFoundError:
            return True
        return False

    def _prefixes(self) -> list[str]:
        """Common prefixes below the listed one, of a level that has about enough of them."""
        level = [self.prefix]
        with ThreadPoolExecutor(_LOOKED_UP_AT_ONCE) as pool:
            for _ in range(_SPLIT_LEVELS):
                listings = pool.map(self._make, [partial(_prefixes, prefix) for prefix in level])
                deeper = [f"{child}/" for children in listings for child in children]
                if not deeper:
                    break
                level = deeper
                if len(level) >= self.ranges // _ENOUGH:  # one more level may be the listing itself
                    break
        return [] if level == [self.prefix] else level

    def _location(self, key: str) -> str:
        return f"{self.base}/{key[len(self.prefix) :]}"


def _expressed(action: Callable[[], Any]) -> Any:
    """Return what a call gives; None where it meets a key that obstore cannot express."""
    try:
        return action()
    except InvalidPathError:
        return None


def _prefixes(prefix: str, store: Any) -> Sequence[str]:
    """Return common prefixes; none, where to find them would take as long as to list."""
    import asyncio

    async def prefixes_below() -> Any:
        return await asyncio.wait_for(
            obstore.list_with_delimiter_async(store, prefix), _SPLIT_SECONDS
        )

    try:
        answer = _expressed(lambda: asyncio.run(prefixes_below()))
    except TimeoutError:
        return ()
    return list(answer["common_prefixes"]) if answer is not None else ()


def _modified_ms(entry: Mapping[str, Any]) -> int:
    modified: datetime = entry["last_modified"]
    return round(modified.timestamp() * 1000)
