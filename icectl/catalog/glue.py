"""Tables of AWS Glue, by requests that keep the JSON of answers as it is.

botocore's own client drops members that it does not know, and sends again what was not answered: a
table must be given back whole, and a commit must know how often it was sent.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from icectl.catalog.aws import Identity, identity_of, signed_headers
from icectl.catalog.http import Answer, Http, NoAnswerError, NotReachedError, Request
from icectl.catalog.identifier import (
    TableName,
    dotted_name,
    no_iceberg_table,
    no_namespace,
    no_table,
)
from icectl.catalog.pointer import (
    METADATA_LOCATION,
    PREVIOUS,
    PointerState,
    SwapUncertain,
    behind_pointer,
    entry_locations,
    store_of_catalog,
)
from icectl.catalog.protocol import CatalogAccess, Conflict, TableInCatalog, TablePlace, places
from icectl.env import Deadline, Env
from icectl.errors import IcectlError, Refused, StorageError, TableNotFound, UsageError
from icectl.format.json_members import parse_json
from icectl.format.metadata import TableMetadata
from icectl.storage.credentials import endpoint_of
from icectl.storage.store import Store

_LOGGER = logging.getLogger(__name__)
_TARGET = "AWSGlue."
_TRIES = 5
_MOST_PAGES = 100_000
COMMIT_SECONDS = 60.0
"""How long the answer to a commit is waited for at least, whatever the time limit is."""

_FIRST_PAUSE_SECONDS = 0.2
_TIMEOUTS = {"rest.client.connection-timeout-ms": "10000", "rest.client.socket-timeout-ms": "60000"}
_THROTTLED = frozenset(
    {"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"}
)
_OF_CREDENTIALS = frozenset({
    "UnrecognizedClientException", "InvalidSignatureException", "IncompleteSignature",
    "ExpiredTokenException", "ExpiredToken", "InvalidClientTokenId",
    "MissingAuthenticationToken", "MissingAuthenticationTokenException",
})  # fmt: skip
_UNANSWERED = frozenset({"OperationTimeoutException", "InternalServiceException"})
_NOT_FOUND = "EntityNotFoundException"
_CHANGED = "ConcurrentModificationException"
_RESENDS = 3
_PAUSE_SECONDS = 0.5

_INPUT = (
    "Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention",
    "StorageDescriptor", "PartitionKeys", "ViewOriginalText", "ViewExpandedText", "TableType",
    "Parameters", "TargetTable", "FederatedTable",
)  # fmt: skip
"""The members of a table that Glue takes back; the others are its own to tell."""

_GROUPS = ("StorageDescriptor", "FederatedTable", "TargetTable")
"""Members of a table that have members of their own."""

_S3_TABLES = "s3tables"
_WORK = {"retention": "retention", "orphan_file_deletion": "orphan file deletion"}
"""Optimizers that expire snapshots and delete files, which is what two must not do at once."""


class GlueRejection(Exception):
    """Glue answered that it did not do what was asked, by the name of an error of its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class GlueAnswerLost(Exception):
    """A request was sent, and no response said whether it was carried out; its text is why."""


class OddAnswer(StorageError):
    """A server says that all is well, and not as Glue does."""


@dataclass(frozen=True, slots=True)
class Glue:
    """The service of one region or endpoint."""

    endpoint: str
    region: str
    identity: Identity
    catalog_id: str | None
    http: Http
    env: Env

    def ask(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask, again where Glue is busy or does not answer. Raises: GlueRejection; StorageError."""
        reason = ""
        for number in range(_TRIES):
            try:
                return self.send(action, request)
            except GlueAnswerLost as error:
                reason = str(error)
                self.env.sleep(_FIRST_PAUSE_SECONDS * 2**number)
        raise StorageError(
            f"AWS Glue at {self.endpoint} does not respond to {action}: {reason}",
            hint="run the command again",
        )

    def pages(
        self, action: str, member: str, request: Mapping[str, Any]
    ) -> Iterator[Mapping[str, Any]]:
        """Yield what an action lists in a member of answers, page by page. Raises: as `ask`."""
        token: Mapping[str, Any] = {}
        for _ in range(_MOST_PAGES):
            page = self.ask(action, {**request, **token})
            entries = page.get(member) or []
            if not isinstance(entries, list) or not all(map(_is_entry, entries)):
                raise StorageError(
                    f"the server at {self.endpoint} is not AWS Glue: it returned an invalid list"
                )
            yield from entries
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}
        raise StorageError(f"AWS Glue at {self.endpoint} returns endless pages for {action}")

    def send(
        self, action: str, request: Mapping[str, Any], at_least_seconds: float = 0.0
    ) -> Mapping[str, Any]:
        """Send one request; again only where Glue says that it was too busy to look at it.

        `at_least_seconds`: as in Http. Raises: GlueRejection; GlueAnswerLost; StorageError, where
        it was never sent.
        """
        for number in range(_TRIES):
            try:
                return self._sent(action, request, at_least_seconds)
            except GlueRejection as error:
                if error.code not in _THROTTLED or number == _TRIES - 1:
                    raise
                self.env.sleep(_FIRST_PAUSE_SECONDS * 2**number)
        raise AssertionError

    def failure(self, error: GlueRejection, doing: str) -> IcectlError:
        """Return the error for a rejected request, `doing` being what was tried, in words."""
        what = f"AWS Glue does not let icectl {doing}: {error.message or error.code}"
        if error.code in _OF_CREDENTIALS:
            return StorageError(
                f"AWS Glue does not accept the credentials from {self.identity.origin}: "
                f"{error.message or error.code}",
                hint="renew them, or name others: `glue.profile-name`, or `glue.access-key-id` and "
                "`glue.secret-access-key`",
            )
        if error.code == "AccessDeniedException" and "lake formation" in error.message.lower():
            return StorageError(
                f"AWS Lake Formation does not let icectl {doing}: {error.message}",
                hint="grant these credentials SELECT and DESCRIBE on the table for reading, ALTER "
                "for commits, and its data location",
            )
        if error.code == "AccessDeniedException":
            return StorageError(
                f"{what} (credentials from {self.identity.origin})",
                hint="icectl needs glue:GetTable, and glue:UpdateTable for commits; "
                "glue:GetDatabases and glue:GetTables for lists",
            )
        return StorageError(f"{what} ({error.code})")

    def _sent(
        self, action: str, request: Mapping[str, Any], at_least_seconds: float
    ) -> Mapping[str, Any]:
        content = {"CatalogId": self.catalog_id, **request} if self.catalog_id else request
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{_TARGET}{action}",
            "User-Agent": "icectl",
        }
        unsigned = Request("POST", self.endpoint, headers, json.dumps(content).encode())
        _LOGGER.debug("glue %s: %s", self.endpoint, action)
        keys, now_ms = self.identity.keys(), self.env.now_ms()
        proved = signed_headers(unsigned, keys, "glue", self.region, now_ms)
        try:
            answer = self.http.send(replace(unsigned, headers=proved), at_least_seconds)
        except NotReachedError as error:
            raise StorageError(
                f"cannot reach AWS Glue at {self.endpoint}: {error}",
                hint="check `glue.region`, `glue.endpoint` and the network",
            ) from error
        except NoAnswerError as error:
            raise GlueAnswerLost(str(error)) from error
        return _answered(self.endpoint, answer)


def glue_of(catalog: str, properties: Mapping[str, str], env: Env, deadline: Deadline) -> Glue:
    """Return the service of a catalog. Raises: UsageError; StorageError, without credentials."""
    who, profile = f"catalog `{catalog}`", properties.get("glue.profile-name")
    identity = identity_of(who, properties, ("glue", "client"), profile)
    region = _first(properties, "glue.region", "client.region") or identity.region
    if not region:
        raise UsageError(
            f"{who} has no region", hint="set `glue.region`, or AWS_REGION in the environment"
        )
    endpoint = _endpoint(catalog, properties, region)
    trusted = {"ssl.cabundle": identity.authorities} if identity.authorities else {}
    http = Http(endpoint, {**_TIMEOUTS, **trusted}, deadline)
    return Glue(endpoint, region, identity, properties.get("glue.id"), http, env)


def _endpoint(catalog: str, properties: Mapping[str, str], region: str) -> str:
    variables = ("AWS_ENDPOINT_URL_GLUE", "AWS_ENDPOINT_URL")
    endpoint = properties.get("glue.endpoint") or _first(os.environ, *variables)
    if endpoint is None:
        return f"{endpoint_of('glue', region)}/"
    if not endpoint.lower().startswith(("http://", "https://")):
        raise UsageError(
            f"catalog `{catalog}`: `glue.endpoint` begins with https://, not `{endpoint}`"
        )
    return endpoint.rstrip("/") + "/"


def _first(properties: Mapping[str, str], *keys: str) -> str | None:
    return next((properties[key] for key in keys if properties.get(key)), None)


def _answered(endpoint: str, answer: Answer) -> Mapping[str, Any]:
    """Return the JSON.

    Raises: GlueRejection; GlueAnswerLost; StorageError, if it is not Glue's: OddAnswer for a 200.
    """
    status = answer.status
    try:
        answer_members = parse_json(answer.body or b"{}")
    except ValueError:
        answer_members = None
    details: Mapping[str, Any] = answer_members if isinstance(answer_members, dict) else {}
    named = (
        answer.headers.get("x-amzn-errortype") or details.get("__type") or details.get("code") or ""
    )
    code = str(named).partition(":")[0].rpartition("#")[2]
    message = str(details.get("message") or details.get("Message") or "")
    if status >= 500 or code in _UNANSWERED:
        raise GlueAnswerLost(f"{code or f'HTTP status {status}'}{': ' if message else ''}{message}")
    if status == 200 and isinstance(answer_members, dict):
        return answer_members
    if not code:
        raise (OddAnswer if status == 200 else StorageError)(
            f"the server at {endpoint} is not AWS Glue: HTTP status {status}",
            hint="check `glue.endpoint`, and proxies in the environment",
        )
    raise GlueRejection(code, message)


def _is_entry(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a database or a table is one as far as icectl looks at it."""
    if not isinstance(value, dict) or not isinstance(value.get("Name"), str):
        return False
    groups = [value.get(name) or {} for name in ("Parameters", *_GROUPS)]
    texts = groups[0].values() if isinstance(groups[0], dict) else ()
    return all(isinstance(group, dict) for group in groups) and all(
        isinstance(text, str | None) for text in texts
    )


def external_maintainer(service: Glue, table: Mapping[str, Any]) -> str | None:
    """Return who expires snapshots or deletes files for clients; None if no one, or unknown."""
    catalog_id = str(service.catalog_id or table.get("CatalogId") or "")
    connection = str((table.get("FederatedTable") or {}).get("ConnectionName", ""))
    if _S3_TABLES in catalog_id or _S3_TABLES in connection:
        return "the maintenance of S3 Tables"
    if not catalog_id:
        return None
    named = {"catalogId": catalog_id, "databaseName": table["DatabaseName"]}
    request = {"Entries": [{**named, "tableName": table["Name"], "type": kind} for kind in _WORK]}
    try:
        answer = service.send("BatchGetTableOptimizer", request)
    except (GlueAnswerLost, GlueRejection, StorageError):
        _LOGGER.debug("Glue does not say which optimizers are enabled", exc_info=True)
        return None
    enabled = set()
    try:
        for entry in answer.get("TableOptimizers") or ():
            optimizer = entry.get("tableOptimizer") or {}
            is_enabled = (optimizer.get("configuration") or {}).get("enabled")
            if is_enabled and optimizer.get("type") in _WORK:
                enabled.add(_WORK[optimizer["type"]])
    except (AttributeError, TypeError) as error:
        raise StorageError(
            f"the server at {service.endpoint} is not AWS Glue: it returned invalid table "
            "optimizers"
        ) from error
    if not enabled:
        return None
    return f"AWS Glue's table optimizers, of which {' and '.join(sorted(enabled))} is enabled"


def connect(access: CatalogAccess) -> "GlueWarehouse":
    """Return the catalog in AWS Glue. Raises: UsageError; StorageError, without credentials."""
    settings = access.settings
    service = glue_of(settings.name, settings.properties, access.env, access.deadline)
    return GlueWarehouse(access, service, store_of_catalog(access))


@dataclass(frozen=True, slots=True)
class GlueWarehouse:
    """The databases of one Glue catalog."""

    access: CatalogAccess
    service: Glue
    store: Store

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        if parent:
            if len(parent) > 1 or parent[0].lower() not in self._databases():
                raise no_namespace(self.access.settings.name, parent, self._databases())
            return
        for name in self._databases():
            yield (name,)

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        for table in self._tables(namespace):
            if _iceberg_type(table) == "iceberg":
                yield TableName(namespace, table["Name"])

    def table(self, name: TableName) -> TableInCatalog:
        """Return one table; Glue has all names in lower case."""
        name = name.lower()
        return behind_pointer(self.access, self.store, GluePointer(self, name), name)

    def places(self) -> Iterator[TablePlace]:
        """Yield every table, of other formats too, with its location. Raises: StorageError."""
        for database in self._databases():
            for table in self._tables((database,)):
                location = (table.get("StorageDescriptor") or {}).get("Location")
                parameters = table.get("Parameters") or {}
                if not _is_view(table):
                    name = TableName((database,), table["Name"])
                    for place in entry_locations(location, parameters):
                        yield from places(name, place, parameters)

    def not_found(self, name: TableName) -> TableNotFound:
        beside = [table["Name"] for table in self._tables(name.namespace)]
        return no_table(self.access.settings.name, name, beside)

    def _databases(self) -> list[str]:
        try:
            names = list(self.service.pages("GetDatabases", "DatabaseList", {}))
        except GlueRejection as error:
            raise self.service.failure(error, "list databases") from error
        return [database["Name"] for database in names]

    def _tables(self, namespace: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        catalog = self.access.settings.name
        if len(namespace) != 1:
            raise no_namespace(catalog, namespace, self._databases())
        request = {"DatabaseName": namespace[0]}
        try:
            yield from self.service.pages("GetTables", "TableList", request)
        except GlueRejection as error:
            if error.code == _NOT_FOUND:
                raise no_namespace(catalog, namespace, self._databases()) from error
            doing = f"list the tables of `{dotted_name(namespace)}`"
            raise self.service.failure(error, doing) from error


@dataclass(slots=True)
class GluePointer:
    """The parameter `metadata_location` of one table, and the version of its entry.

    `is_settled` says whether the last swap that ended in SwapUncertain can come no more; `keepers`
    holds who maintains the table in the place of clients, once Glue was asked.
    """

    warehouse: GlueWarehouse
    name: TableName
    is_settled: bool = False
    keepers: list[str | None] = field(default_factory=list)

    def read(self) -> PointerState:
        catalog = self.warehouse.access.settings.name
        table = self._table()
        if _is_view(table):
            raise no_iceberg_table(catalog, self.name, "a view")
        target = table.get("TargetTable")
        parameters = table.get("Parameters") or {}
        if target and METADATA_LOCATION not in parameters:
            place = f"{target.get('DatabaseName')}.{target.get('Name')}"
            link = f"a link to `{place}` of account {target.get('CatalogId')}"
            raise no_iceberg_table(catalog, self.name, f"{link} (set `glue.id` to that)")
        if _iceberg_type(table) != "iceberg":
            raise no_iceberg_table(catalog, self.name, "a table of another format")
        if not parameters.get(METADATA_LOCATION):
            raise TableNotFound(
                f"AWS Glue has no metadata file for `{self.name}`: the parameter "
                f"`{METADATA_LOCATION}` is missing"
            )
        if not self.keepers:
            self.keepers.append(external_maintainer(self.warehouse.service, table))
        return PointerState(
            parameters[METADATA_LOCATION],
            parameters.get(PREVIOUS),
            table,
            parameters,
            self.keepers[0],
        )

    def check_writable(self, pointed: PointerState) -> None:
        """Raises: Refused, where Glue sends no version of the entry."""
        assert isinstance(pointed.token, dict)
        if not pointed.token.get("VersionId"):
            raise Refused(
                f"the server at {self.warehouse.service.endpoint} returns no version of "
                f"`{self.name}`, so a commit could overwrite another writer's",
                hint="commit with an engine, through AWS Glue itself",
            )

    def swap(
        self,
        pointed: PointerState,
        metadata_location: str,
        metadata: TableMetadata,  # noqa: ARG002
    ) -> Conflict | None:
        """Update the table, if it has the version that was read; again after a lost answer.

        Of the requests with one version Glue carries out one. Raises: SwapUncertain; StorageError.
        """
        self.is_settled = False
        request = self._request(pointed, metadata_location)
        lost: str | None = None
        for number in range(1 + _RESENDS):
            try:
                self.warehouse.service.send("UpdateTable", request, COMMIT_SECONDS)
            except (GlueAnswerLost, OddAnswer) as error:  # perhaps of something in between
                lost = str(error)
            except GlueRejection as error:
                return self._rejected(error, lost)
            except StorageError:
                if lost is None:
                    raise
            else:
                return None
            self.warehouse.access.env.sleep(_PAUSE_SECONDS * 2**number)
        assert lost is not None
        raise SwapUncertain(lost)

    def settle(self, pointed: PointerState) -> bool:  # noqa: ARG002
        """Return whether Glue has said that the version which was to be changed is no more."""
        return self.is_settled

    def _rejected(self, error: GlueRejection, lost: str | None) -> Conflict:
        """Return Glue's conflict. Raises: StorageError; SwapUncertain, after a lost answer."""
        if error.code == _CHANGED and lost is None:
            return Conflict("another writer has changed the table in AWS Glue")
        if lost is not None:  # the version may be gone because the first request was carried out
            self.is_settled = error.code == _CHANGED
            raise SwapUncertain(lost) from error
        if error.code == _NOT_FOUND:
            raise TableNotFound(f"`{self.name}` is no longer in AWS Glue") from error
        if error.code == "ResourceNumberLimitExceededException":
            raise StorageError(
                f"cannot commit to `{self.name}`: AWS Glue's limit of table versions is reached: "
                f"{error.message}",
                hint="set `glue.skip-archive=true` in the catalog's configuration to keep no old "
                "ones; `aws glue batch-delete-table-version` deletes existing ones",
            ) from error
        raise self.warehouse.service.failure(error, f"change `{self.name}`") from error

    def _table(self) -> Mapping[str, Any]:
        if len(self.name.namespace) != 1:
            raise self.warehouse.not_found(self.name)
        request = {"DatabaseName": self.name.namespace[0], "Name": self.name.name}
        try:
            answer = self.warehouse.service.ask("GetTable", request)
        except GlueRejection as error:
            if error.code == _NOT_FOUND:
                raise self.warehouse.not_found(self.name) from error
            raise self.warehouse.service.failure(error, f"read `{self.name}`") from error
        table = answer.get("Table")
        if not _is_entry(table) or "DatabaseName" not in table:
            endpoint = self.warehouse.service.endpoint
            raise StorageError(f"the server at {endpoint} is not AWS Glue: it sent no table")
        return table

    def _request(self, pointed: PointerState, target: str) -> Mapping[str, Any]:
        """Return the request that changes the pointer and nothing else of the table."""
        assert isinstance(pointed.token, dict)
        kept = {name: pointed.token[name] for name in _INPUT if name in pointed.token}
        properties = self.warehouse.access.settings.properties
        return {
            "DatabaseName": self.name.namespace[0],
            "TableInput": {
                **kept,
                "Parameters": {
                    **pointed.parameters,
                    METADATA_LOCATION: target,
                    PREVIOUS: pointed.metadata_location,
                },
            },
            "SkipArchive": properties.get("glue.skip-archive", "true").lower() == "true",
            "VersionId": pointed.token["VersionId"],
        }


def _iceberg_type(table: Mapping[str, Any]) -> str:
    return str((table.get("Parameters") or {}).get("table_type", "")).lower()


def _is_view(table: Mapping[str, Any]) -> bool:
    return "VIEW" in str(table.get("TableType", "")).upper() or "view" in _iceberg_type(table)
