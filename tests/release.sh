#!/usr/bin/env bash
# Builds the sdist, and from it the wheel, and checks what a release has to hold: descriptions that the
# package index accepts, an installation in a clean environment that needs no compiler and runs the
# quickstart of the README, the manual and completion scripts in their places, a version that the
# changes name. `tests/release.sh FOLDER [TAG]` leaves the
# files in FOLDER; with TAG, it must be the version with a `v` in front, and the changes must have a
# heading of it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mkdir -p "$1" && cd "$1" && pwd)
tag=${2:-}
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$root/icectl/__init__.py")
if [ -n "$tag" ]; then
    [ "$tag" = "v$version" ] || { echo "tag $tag is not v$version of icectl/__init__.py" >&2; exit 1; }
    grep -q "^## $version$" "$root/docs/CHANGELOG.md" || {
        echo "docs/CHANGELOG.md has no heading \`## $version\` (without \`(unreleased)\`)" >&2
        exit 1
    }
fi

"$python" -m venv "$work/build"
"$work/build/bin/pip" install -q build twine
env -u PYTHONPATH "$work/build/bin/python" -m build -o "$folder" "$root" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
"$work/build/bin/twine" check --strict "$folder/icectl-$version"*

# Nothing is compiled here: the wheel has what was compiled.
"$python" -m venv "$work/clean"
"$work/clean/bin/pip" install -q --only-binary :all: "$folder/icectl-$version"*.whl \
    'pyiceberg[pyarrow,sql-sqlite]'
unset PYTHONPATH
cd "$work"
icectl=$work/clean/bin/icectl
[ "$("$icectl" --version)" = "icectl $version" ]
"$icectl" --version --verbose >"$work/built"
grep -q '^installed wheel for ' "$work/built"
grep -q '^loops compiled' "$work/built"
"$icectl" man expire-snapshots | grep '^SYNOPSIS' >"$work/log"
cmp "$root/man/icectl-expire-snapshots.1" "$work/clean/share/man/man1/icectl-expire-snapshots.1"
"$icectl" completion bash | cmp - "$work/clean/share/bash-completion/completions/icectl"
"$icectl" schema inspect >"$work/schema.json"
code=0
"$icectl" inspect "$work/none" --json >"$work/none.json" 2>&1 || code=$?
[ "$code" = 10 ]
# The quickstart of the README, by a copy of its runner, which has no checkout of icectl beside it.
mkdir -p "$work/tests/generate" "$work/quickstart"
cp "$root/tests/generate/readme.py" "$work/tests/generate"
cp "$root/README.md" "$work"
"$work/clean/bin/python" - "$work/quickstart" <<'END'
import sys
from pathlib import Path

from tests.generate import readme

printed = readme.outputs(readme.README.read_text("utf-8"), Path(sys.argv[1]))
assert "1 table: 1 done" in printed[-1], printed
END
echo "icectl $version: $(cd "$folder" && ls "icectl-$version"* | paste -sd' ')"
