#!/usr/bin/env bash
# The main job, once through: builds a neglected table and maintains it with icectl.
#
#   tests/tour.sh [DIRECTORY]     the table is built in DIRECTORY/orders (default: a temporary folder)
#
# Needs Python 3.11+ and a package index; everything else is set up here. Where there is Java, the
# compaction runs on Spark, whose package is 450 MB.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/environment.sh

engine=local
if command -v java >/dev/null && spark=$(make_environment product-on-spark "$root[spark]"); then
    environment=$spark engine=spark
else
    environment=$(make_environment product "$root")
fi
install_project "$environment"
export PATH="$environment/bin:$PATH"
folder=${1:-$(mktemp -d)}
table=$folder/orders
rm -rf "$table"

# run COMMAND...: shows the command, then runs it; a code other than the expected ends the tour.
run() {
    local expected=0 code=0
    case $1 in [0-9]*) expected=$1; shift ;; esac
    printf '\n$ %s\n' "${*//"$table"/orders}"
    "$@" || code=$?
    [ "$code" = "$expected" ] || { echo "exit $code, expected $expected" >&2; exit 1; }
}

say "building a table that nobody maintained"
python -m tests.builders.tour build "$table"
before=$(python -m tests.builders.tour rows "$table")
echo "$before"

say "what is in it"
run icectl inspect "$table"
run icectl inspect "$table" health
run icectl inspect "$table" snapshots --limit 5
run icectl inspect "$table" files --limit 5

say "is it sound"
run icectl validate "$table" --level data --all-snapshots

say "what would an expiry do"
run 4 icectl expire-snapshots "$table" --check | tail -n 1
run icectl expire-snapshots "$table" --older-than 7d --retain-last 10 --dry-run |
    sed -n '1,12p; 12s/.*/.../p; $p'

say "expire"
run icectl expire-snapshots "$table" --older-than 7d --retain-last 10 --yes
run icectl expire-snapshots "$table" --older-than 7d --retain-last 10 --yes

say "regroup the manifests"
run icectl rewrite-manifests "$table" --yes
run icectl rewrite-manifests "$table" --yes

case $engine in
    spark) say "put the small files together, deletes applied: on Spark, as there is Java" ;;
    local) say "put the small files together, deletes applied: without Spark, as there is no Java" ;;
esac
run icectl compact "$table" --engine "$engine" --yes
run icectl compact "$table" --engine "$engine" --yes

say "is it still sound"
run icectl validate "$table" --level data --all-snapshots

say "the rows are what they were"
after=$(python -m tests.builders.tour rows "$table")
echo "$after"
[ "$before" = "$after" ] || { echo "rows differ" >&2; exit 1; }
printf '\nThe table is in %s\n' "$table"
