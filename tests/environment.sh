# Sourced by tests/run.sh and tests/tour.sh: finds Python, keeps environments in a cache folder.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${ICECTL_TEST_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/icectl-tests}
mkdir -p "$cache"

say() { printf '\n== %s\n' "$*" >&2; }

# find_python: the first interpreter that is new enough.
find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "Python 3.11 or newer is needed; name one with PYTHON=/path/to/python" >&2
    return 1
}

# make_environment NAME REQUIREMENT...: a virtual environment in the cache, made once for each set
# of requirements; prints its folder.
make_environment() {
    local name=$1 python stamp folder
    shift
    python=$(find_python) || return 1
    stamp=$({ "$python" -V; printf '%s\n' "$@"; cat "$root/pyproject.toml"; } | cksum | cut -d' ' -f1)
    folder=$cache/$name-$stamp
    if [ ! -f "$folder/ready" ]; then
        say "setting up $folder"
        rm -rf "$folder"
        "$python" -m venv "$folder" &&
            "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2 &&
            touch "$folder/ready" || return 1
    fi
    echo "$folder"
}

# install_project ENVIRONMENT: this checkout, editable, without touching the dependencies; done anew
# where what is installed of it has changed.
install_project() {
    local stamp
    stamp=$root-$(cd "$root" && cat pyproject.toml hatch_build.py icectl/__init__.py \
        icectl/files/build_loops.py icectl/files/loops.c man/* completions/* | cksum | cut -d' ' -f1)
    if [ "$(cat "$1/installed" 2>/dev/null)" != "$stamp" ] ||
        ! compgen -G "$root/icectl/files/loops-*.so" >/dev/null; then
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
            --editable "$root" >&2 || return 1
        echo "$stamp" >"$1/installed"
    fi
    # tests start it hundreds of times: modules are compiled once, whatever Python is told of writing
    "$1/bin/python" -m compileall -q -j 0 "$root/icectl" "$root/tests" >&2
}
