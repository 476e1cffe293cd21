#!/bin/sh
# Make the virtual environment .venv with any Python from 3.11 on. On Debian, Python may come without the part that
# makes virtual environments (the package python3-venv): install it when we may, say so when we may not.
set -eu
for python in "${PYTHON:-python3}" python3.13 python3.12 python3.11 none; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
done
if [ "$python" = none ]; then
    echo "VoiceVeil needs Python 3.11 or newer; set PYTHON to one" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && apt-get install -y -qq python3-venv
    else
        echo "this Python cannot make virtual environments; run: sudo apt-get install python3-venv" >&2
        exit 1
    fi
fi
"$python" -m venv .venv
