"""Statements to DuckDB with its extension for Iceberg; by a Python that has both.

    duckdb_statements.py CATALOG STATEMENT ...

For each statement a line of JSON with its rows is printed. CATALOG is the address of a REST
catalog, which is attached as `r`; an empty one is none.
"""

import importlib.util
import json
import sys
from pathlib import Path

import duckdb


def main(catalog: str, *statements: str) -> None:
    """Print the rows of each statement."""
    connection = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        (path,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{path}'")
    if catalog:
        options = f"TYPE iceberg, ENDPOINT '{catalog}', AUTHORIZATION_TYPE 'none'"
        connection.execute(f"ATTACH '' AS r ({options})")
    for statement in statements:
        print(json.dumps(connection.execute(statement).fetchall()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
