#!/usr/bin/env bash
# Builds the sdist, and from it the wheel, and checks what a release has to hold: descriptions that the
# package index accepts, an installation in a clean environment that works, the manual and completion
# scripts in their places, a version that the changes name. `tests/release.sh FOLDER [TAG]` leaves the
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

"$python" -m venv "$work/clean"
"$work/clean/bin/pip" install -q "$folder/icectl-$version"*.whl
unset PYTHONPATH
cd "$work"
icectl=$work/clean/bin/icectl
[ "$("$icectl" --version)" = "icectl $version" ]
"$icectl" man expire-snapshots | cmp - "$work/clean/share/man/man1/icectl-expire-snapshots.1"
"$icectl" completion bash | cmp - "$work/clean/share/bash-completion/completions/icectl"
"$icectl" schema inspect >"$work/schema.json"
code=0
"$icectl" inspect "$work/none" --json >"$work/none.json" 2>&1 || code=$?
[ "$code" = 10 ]
echo "icectl $version: $(cd "$folder" && ls "icectl-$version"* | paste -sd' ')"
