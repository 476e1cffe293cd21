"""A plain HTTP client with one cookie, for tests of the server without a browser."""

from __future__ import annotations

import http.client
import json
import re
from typing import Any
from urllib.parse import urlencode, urlsplit


class Client:
    """A client that keeps its cookie and does not follow redirects."""

    def __init__(self, address: str) -> None:
        self.host = urlsplit(address).netloc
        self.cookie = ""

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        sent = {**({"cookie": self.cookie} if self.cookie else {}), **(headers or {})}
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        data, found = answer.read(), {key.lower(): value for key, value in answer.getheaders()}
        connection.close()
        if "set-cookie" in found:
            self.cookie = found["set-cookie"].partition(";")[0]
        return answer.status, found, data

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        return self.request("GET", path, headers={key.replace("_", "-"): value for key, value in headers.items()})

    def page(self, path: str = "/") -> str:
        return self.get(path)[2].decode()

    def form(self, path: str, **values: str) -> tuple[int, dict[str, str], bytes]:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self.request("POST", path, urlencode(values).encode(), kind)

    def json(self, path: str, values: Any, **headers: str) -> tuple[int, Any]:
        kind = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        status, _, data = self.request("POST", path, json.dumps(values).encode(), kind)
        return status, json.loads(data)

    def mark(self) -> str:
        """Return the anti-forgery token in the forms of the current page."""
        return search(r'(?:name="mark" value|data-mark)="(\w+)"', self.page())

    def item(self) -> str:
        """Return the id of the current item."""
        return search(r'(?:name="item" value|data-item)="([\w-]+)"', self.page())


def search(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]
