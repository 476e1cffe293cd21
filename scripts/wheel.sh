#!/bin/sh
# The wheel of the commit that is checked out, in dist/ or the folder given: the same bytes whoever builds it, wherever and
# whenever. A wheel records times and permissions of its files, so they come from the commit and not from the work tree;
# what lies in build/ from earlier versions cannot slip in. Its metadata name the setuptools that made it, which is
# therefore the one installed (pinned in constraints.txt), and nothing is fetched.
set -eu
out=$(realpath -m "${1:-dist}")
cd "$(dirname "$0")/.."
python=$(command -v "${PYTHON:-$PWD/.venv/bin/python}")
umask 022
tree=$(mktemp -d)
trap 'rm -rf "$tree" "$tree.tar"' EXIT
git -c tar.umask=0022 archive --output="$tree.tar" HEAD pyproject.toml README.md LICENSE NOTICE src
tar -x -f "$tree.tar" -C "$tree"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
"$python" -m pip wheel --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation \
    --wheel-dir "$out" "$tree"
