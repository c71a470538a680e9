"""ASGI middleware: names in each response what it has read. It waits for bodies as `thorp_web.wsgi` does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any

from thorp_web import recording
from thorp_web.fields import BODY_BYTES_MAX, CACHE_GROUPS, Field, answer, is_read_along, is_worth_waiting
from thorp_web.helper import TICKET, Helper
from thorp_web.map import Map
from thorp_web.wsgi import SAFE_METHODS

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Stored = Callable[[Sequence[str] | None], Awaitable[list[tuple[str, str]]]]
ASGIApplication = Callable[[Scope, Receive, Send], Awaitable[None]]

_TICKET = TICKET.lower().encode()


class ASGIMiddleware:
    """An application whose responses say what they depend on, by the names of a map; to `thorp verify`, too, if it is
    said where that listens."""

    def __init__(
        self, app: ASGIApplication, rules: Map, *, field: str = CACHE_GROUPS, verify: str | None = None
    ) -> None:
        self._app, self._map, self._field = app, rules, Field(field)
        self._helper = Helper(verify) if verify else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            # Tasks that begin at start-up may serve requests, so their reads are not nobody's.
            await self._app(scope, receive, send)
        elif scope.get("method") not in SAFE_METHODS:
            with recording.unrecorded():
                await self._app(scope, receive, send)
        else:
            await self._record(scope, receive, send)

    async def _record(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = recording.begin(self._map)
        response = _Response(send, self._field, record, self._stored(scope))
        try:
            with recording.recording_to(record):
                await self._app(scope, receive, response.send)
                await response.end(is_whole=False)
        finally:
            # After an error it is still under way.
            if not record.is_over:
                recording.end(record, self._field.is_sayable)

    def _stored(self, scope: Scope) -> Stored:
        helper = self._helper
        tickets = [bytes(value) for name, value in scope.get("headers", ()) if bytes(name).lower() == _TICKET]

        async def stored(names: Sequence[str] | None) -> list[tuple[str, str]]:
            if helper is None or not tickets or names is None:
                return []
            # It is asked in a thread: the loop serves others in the meantime.
            return await asyncio.to_thread(helper.stored, tickets[0].decode("latin-1"), names)

        return stored


class _Response:
    """A response whose head waits for the names."""

    def __init__(self, send: Send, field: Field, record: recording.Recording, stored: Stored) -> None:
        self._send, self._field, self._record, self._stored = send, field, record, stored
        self._head: Message | None = None
        self._pieces: list[Message] = []
        self._bytes = 0

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if self._record.is_over or not (self._head or kind == "http.response.start"):
            await self._send(message)
        elif kind == "http.response.start":
            self._head = message
        else:
            self._pieces.append(message)
            self._bytes += len(message.get("body", b""))
            # Of a file that the server sends by itself no rows are read.
            is_file = kind in ("http.response.pathsend", "http.response.zerocopysend")
            is_whole = is_file or (kind == "http.response.body" and not message.get("more_body", False))
            if is_whole or not self._is_collected():
                await self.end(is_whole=is_whole)

    def _is_collected(self) -> bool:
        """Whether to wait for the next piece. The first one is often all that there is."""
        fields = self._fields()
        if is_worth_waiting(fields):
            return self._bytes <= BODY_BYTES_MAX
        return sum(bool(piece.get("body")) for piece in self._pieces) <= 1 and not is_read_along(fields)

    async def end(self, *, is_whole: bool) -> None:
        """Nothing that is read from now on can be named."""
        if self._record.is_over:
            return
        if not is_whole:
            self._record.refuse("its body is longer than what is waited for")
        names = recording.end(self._record, self._field.is_sayable)
        # Jobs that follow the response are none of it.
        recording.stop_here()
        if self._head is not None:
            fields = answer(self._fields(), self._field, names) + await self._stored(names)
            await self._send({**self._head, "headers": _encoded(fields)})
        for piece in self._pieces:
            await self._send(piece)
        self._pieces = []

    def _fields(self) -> list[tuple[str, str]]:
        given = self._head.get("headers", []) if self._head else []
        return [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in given]


def _encoded(fields: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """ASGI wants names in small letters."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields]
