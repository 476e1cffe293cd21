"""Parts of a file, as players ask for them (RFC 9110, section 14)."""

from __future__ import annotations

import re

from starlette.responses import Response

__all__ = ["ranged"]

_ONE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def ranged(data: bytes, asked: str | None, media_type: str, cache: str) -> Response:
    """All of the data, or the one range that was asked for; what is no single range of bytes is not heeded."""
    headers = {"accept-ranges": "bytes", "cache-control": cache}
    match = _ONE.fullmatch(asked or "")
    if match is None or match[0] == "bytes=-":
        return Response(data, 200, headers, media_type)
    size = len(data)
    if match[1]:
        first, last = int(match[1]), min(int(match[2] or size - 1), size - 1)
    else:  # the last so many
        first, last = max(0, size - int(match[2])), size - 1
    if match[1] and match[2] and int(match[2]) < int(match[1]):  # invalid, hence not heeded
        return Response(data, 200, headers, media_type)
    if first > last:
        return Response(b"", 416, {**headers, "content-range": f"bytes */{size}"}, media_type)
    headers["content-range"] = f"bytes {first}-{last}/{size}"
    return Response(data[first : last + 1], 206, headers, media_type)
