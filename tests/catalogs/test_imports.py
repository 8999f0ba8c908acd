"""What a command imports for a table of a catalog: no library of another kind of catalog."""

import os
import subprocess
import sys

from tests.builders.table_builder import filled_table
from tests.catalogs.server import NAME

HEAVY = {
    "aiobotocore", "boto3", "botocore", "fsspec", "psycopg", "psycopg2", "pyiceberg", "pymysql",
    "requests", "s3fs", "sqlalchemy", "thrift", "urllib3",
}  # fmt: skip
NEEDED = {
    "postgresql": {"psycopg"}, "mariadb": {"pymysql"}, "rest": {"urllib3"}, "glue": {"urllib3"},
}  # fmt: skip


def test_a_table_by_name_imports_what_its_catalog_needs(request, server):
    table = filled_table(server.warehouse / "t", range(3))
    server.register("t", str(max(table.directory.glob("metadata/*.json"))))
    line = ["inspect", ".".join((NAME, *server.namespace, "t"))]
    script = (
        f"import sys; from icectl.cli.app import main; code = main({line!r})\n"
        "print(sorted({name.split('.')[0] for name in sys.modules})); sys.exit(code)"
    )
    # What AWS's own configuration says only botocore can read.
    settings = {"AWS_CONFIG_FILE": os.devnull + "/none"}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    loaded = set(eval(ended.stdout.splitlines()[-1]))
    assert loaded & HEAVY == NEEDED.get(request.node.callspec.params["server"], set())
