#!/usr/bin/env bash
# Sets up everything and runs all checks and tests of icectl.
#
#   tests/run.sh              the quick tier: lint, types, all tests but the slowest
#   tests/run.sh --full       also the slowest tests and the benchmarks' targets
#   tests/run.sh -- ARGS      only pytest, with these arguments
#
# Needs Python 3.11+ and a package index. With Java 17 or newer it also tests against Iceberg's own
# Spark runtime (from Maven Central); without, those tests are skipped and say why.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/environment.sh

tier=quick
only_pytest=()
case "${1:-}" in
    --full) tier=full ;;
    --) shift; only_pytest=("$@") ;;
    "") ;;
    *) sed -n '2,9p' "$0"; exit 2 ;;
esac

environment=$(make_environment test "$root[test]")
install_project "$environment"
export PATH="$environment/bin:$PATH"

# The Spark peer lives in an environment of its own: its runtime fixes the version of PySpark.
spark_version=4.1.4
iceberg_version=1.12.0
jar=iceberg-spark-runtime-4.1_2.13-$iceberg_version.jar
java_version() { java -version 2>&1 | sed -nE '1s/.*"([0-9]+).*/\1/p'; }

set_up_spark_peer() {
    local version
    version=$(java_version || true)
    if [ -z "$version" ] || [ "$version" -lt 17 ]; then
        export ICECTL_TEST_NO_SPARK="Java 17 or newer is not on the PATH; install a JDK, for example with \`apt-get install openjdk-17-jre-headless\`"
        return
    fi
    local peer
    if ! peer=$(make_environment spark "pyspark==$spark_version" "pandas>=2.2" pyarrow); then
        export ICECTL_TEST_NO_SPARK="PySpark $spark_version could not be installed"
        return
    fi
    if [ ! -f "$cache/$jar" ]; then
        say "fetching $jar"
        local url=${MAVEN_CENTRAL:-https://repo.maven.apache.org/maven2}
        if ! curl --fail --silent --show-error --location --retry 3 --max-time 600 \
            --output "$cache/$jar.part" \
            "$url/org/apache/iceberg/${jar%-"$iceberg_version".jar}/$iceberg_version/$jar"; then
            export ICECTL_TEST_NO_SPARK="Iceberg's Spark runtime could not be had from Maven Central"
            return
        fi
        mv "$cache/$jar.part" "$cache/$jar"
    fi
    export ICECTL_TEST_SPARK_PYTHON=$peer/bin/python ICECTL_TEST_SPARK_JAR=$cache/$jar
}
set_up_spark_peer
[ -z "${ICECTL_TEST_NO_SPARK:-}" ] || say "tests with Spark are skipped: $ICECTL_TEST_NO_SPARK"

workers=$(python -c 'import os; print(min(os.cpu_count() or 1, 8))')
if [ ${#only_pytest[@]} -gt 0 ]; then
    exec python -m pytest "${only_pytest[@]}"
fi

say "lint and types"
ruff check .
ruff format --check .
mypy

say "generated files are fresh"
python -m icectl.cli.docs --check

say "tests, $tier tier"
if [ "$tier" = full ]; then
    python -m pytest -n "$workers" --dist loadgroup
    say "benchmarks"
    for benchmark in tests/benchmarks/bench_*.py; do
        python "$benchmark"
    done
else
    python -m pytest -n "$workers" --dist loadgroup -m "not full"
fi
