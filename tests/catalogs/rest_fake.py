"""A REST catalog in Python, with one table, whose answers a test may replace."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icectl.env import SystemEnv
from tests.catalogs.rest_servers import PythonServer, Reply, Seen, python_server, refusal
from tests.fault.changing import run

TABLE = "c.db.t"


@dataclass
class Fake:
    """The catalog: `config` is what it answers for its configuration, `extra` goes with the table.

    `before` may answer in the place of the catalog.
    """

    location: Path
    config: dict[str, Any] = field(default_factory=lambda: {"defaults": {}, "overrides": {}})
    extra: dict[str, Any] = field(default_factory=dict)
    before: Callable[[Seen], Reply | None] = lambda _: None
    server: PythonServer | None = None
    commits: int = 0

    def answer(self, seen: Seen) -> Reply:
        found = self.before(seen)
        if found is not None:
            return found
        path = seen.path.partition("?")[0]
        if path.endswith("/v1/config"):
            return Reply(body=self.config)
        if path.endswith("/oauth/tokens"):
            return Reply(body={"access_token": "fetched", "token_type": "bearer"})
        if path.endswith("/tables/t") and seen.method == "GET":
            return Reply(body={**self.loaded(), **self.extra})
        if path.endswith("/tables/t"):
            return self.commit(seen)
        if path.endswith("/tables"):
            return Reply(body={"identifiers": [{"namespace": ["db"], "name": "t"}]})
        if path.endswith("/namespaces"):
            return Reply(body={"namespaces": [["db"]] if "parent" not in seen.path else []})
        return refusal(404, f"nothing at {path}", "NoSuchTableException")

    @property
    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.location.read_bytes())
        return found

    def loaded(self) -> dict[str, Any]:
        return {"metadata-location": str(self.location), "metadata": self.metadata}

    def commit(self, seen: Seen) -> Reply:
        """Make the changes that expiries and rewrites of manifests ask for."""
        metadata = self.metadata
        for one in seen.json["requirements"]:
            if one["type"] == "assert-ref-snapshot-id":
                ref = metadata["refs"].get(one["ref"], {})
                if ref.get("snapshot-id") != one["snapshot-id"]:
                    return refusal(409, f"ref {one['ref']} has moved", "CommitFailedException")
        for update in seen.json["updates"]:
            _apply(metadata, update)
        entry = {
            "timestamp-ms": metadata["last-updated-ms"], "metadata-file": str(self.location)
        }  # fmt: skip
        keep = int(metadata["properties"].get("write.metadata.previous-versions-max", 100))
        metadata["metadata-log"] = [*metadata.get("metadata-log", []), entry][-keep:]
        metadata["last-updated-ms"] = time.time_ns() // 1_000_000
        self.commits += 1
        self.location = self.location.parent / f"{self.commits:05}-fake.metadata.json"
        self.location.write_text(json.dumps(metadata))
        return Reply(body=self.loaded())

    @property
    def posts(self) -> list[Seen]:
        """The commits that were asked for."""
        assert self.server is not None
        return self.server.asked("/tables/t", "POST")

    def run(self, *words: str, **properties: str) -> tuple[int, dict[str, Any]]:
        """Run a command on the table."""
        assert self.server is not None
        settings = {
            "uri": self.server.uri,
            **{k.replace("__", "."): v for k, v in properties.items()},
        }
        options = [
            word
            for key, value in settings.items()
            for word in ("--catalog-option", f"{key}={value}")
        ]
        command, *more = words
        return run([command, TABLE, *options, *more, "--json"], env=Quick())

    def expire(self, **properties: str) -> tuple[int, dict[str, Any]]:
        words = ("expire-snapshots", "--older-than", "0s", "--retain-last", "1", "--yes")
        return self.run(*words, **properties)


class Quick:
    """The machine's clock and ids; it waits for nothing."""

    def __init__(self) -> None:
        self.own, self.waited_seconds = SystemEnv(), 0.0

    def sleep(self, seconds: float) -> None:
        self.waited_seconds += seconds

    def now_ms(self) -> int:
        return self.own.now_ms() + round(1000 * self.waited_seconds)

    def monotonic_seconds(self) -> float:
        return self.own.monotonic_seconds() + self.waited_seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


@contextmanager
def fake(location: Path) -> Iterator[Fake]:
    """Serve a metadata file as `c.db.t`."""
    catalog = Fake(location)
    with python_server(catalog.answer) as server:
        catalog.server = server
        yield catalog


def _apply(metadata: dict[str, Any], update: dict[str, Any]) -> None:
    match update["action"]:
        case "remove-snapshots":
            gone = set(update["snapshot-ids"])
            metadata["snapshots"] = [
                one for one in metadata["snapshots"] if one["snapshot-id"] not in gone
            ]
            metadata["refs"] = {
                name: ref
                for name, ref in metadata["refs"].items()
                if ref["snapshot-id"] not in gone
            }
            metadata["snapshot-log"] = []
        case "add-snapshot":
            metadata["snapshots"].append(update["snapshot"])
            metadata["last-sequence-number"] = update["snapshot"]["sequence-number"]
        case "set-snapshot-ref":
            ref = {key: value for key, value in update.items() if key not in ("action", "ref-name")}
            metadata["refs"][update["ref-name"]] = ref
            if update["ref-name"] == "main":
                metadata["current-snapshot-id"] = ref["snapshot-id"]
        case "remove-snapshot-ref":
            del metadata["refs"][update["ref-name"]]
        case other:
            raise AssertionError(other)
