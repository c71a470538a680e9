"""Tells `thorp verify` what a response depends on, for an nginx that keeps it.

The server has asked for the response with a ticket, and keeps it only if the response says that it was stored. So
whatever goes wrong here, the response is good, and is not kept.
"""

from __future__ import annotations

import http.client
import json
import logging
import socket
from collections.abc import Sequence

log = logging.getLogger("thorp_web")

TICKET = "Thorp-Ticket"
"""The field of a request by which the server has one."""

STORED = "Thorp-Stored"
"""The field of a response that says under which version it was stored."""

WITHIN_S = 2.0
"""The helper is on the same machine, and waits for nobody else."""


class Helper:
    """Where `thorp verify` listens: the path of its socket, or `127.0.0.1:7414`."""

    def __init__(self, address: str) -> None:
        self._address = address

    def stored(self, ticket: str, names: Sequence[str] | None) -> list[tuple[str, str]]:
        """The field that says that a response with these dependencies was stored; none if it was not."""
        if not ticket or names is None:
            return []
        body = json.dumps({"ticket": ticket, "dependencies": list(names)})
        connection = self._connection()
        try:
            connection.request("POST", "/store", body, {"Host": "localhost", "Content-Type": "application/json"})
            said = json.load(connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as error:
            log.warning("thorp verify at %s does not answer: %s", self._address, error)
            return []
        finally:
            connection.close()
        if "version" not in said:
            log.debug("not stored: %s", said.get("reason", said.get("error")))
            return []
        return [(STORED, str(said["version"]))]

    def _connection(self) -> http.client.HTTPConnection:
        if "/" in self._address:
            return _SocketConnection(self._address)
        return http.client.HTTPConnection(self._address, timeout=WITHIN_S)


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=WITHIN_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
