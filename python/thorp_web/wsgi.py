"""WSGI middleware: names in each response what it has read.

The names stand in front of the body, so the body has to be there before. One that an application makes piece by piece
(a generator, a stream) is collected if caches may have it, up to `fields.BODY_BYTES_MAX`; of others, and beyond, the
response says that it is not to be stored, and its pieces go out as they come, one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from thorp_web import recording
from thorp_web.fields import BODY_BYTES_MAX, CACHE_GROUPS, Field, answer, is_read_along, is_worth_waiting
from thorp_web.helper import TICKET, Helper
from thorp_web.map import Map

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_TICKET = "HTTP_" + TICKET.upper().replace("-", "_")

SAFE_METHODS = frozenset({"GET", "HEAD"})
"""Others are never stored, and nothing is recorded of them."""


Stored = Callable[[Sequence[str] | None], list[tuple[str, str]]]
"""Stores a response with its names; gives the field that says so."""


class WSGIMiddleware:
    """An application whose responses say what they depend on, by the names of a map; to `thorp verify`, too, if it is
    said where that listens."""

    def __init__(
        self, app: WSGIApplication, rules: Map, *, field: str = CACHE_GROUPS, verify: str | None = None
    ) -> None:
        self._app, self._map, self._field = app, rules, Field(field)
        self._helper = Helper(verify) if verify else None

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("REQUEST_METHOD") not in SAFE_METHODS:
            with recording.unrecorded():
                return _Unrecorded(self._app(environ, start_response))
        record = recording.begin(self._map)
        try:
            with recording.recording_to(record):
                stored = self._stored(environ.get(_TICKET, ""))
                return self._respond(environ, _Response(start_response, self._field, record, stored))
        finally:
            # After an error it is still under way.
            if not record.is_over:
                recording.end(record, self._field.is_sayable)

    def _stored(self, ticket: str) -> Stored:
        helper = self._helper
        return lambda names: helper.stored(ticket, names) if helper else []

    def _respond(self, environ: WSGIEnvironment, response: _Response) -> Iterable[bytes]:
        body = self._app(environ, response.start)
        # A list is all there, and a file that the server sends by itself reads no rows.
        if response.is_started and (isinstance(body, list | tuple) or _is_file(environ, body)):
            response.end(is_whole=True)
            return body
        pieces, is_whole = iter(body), False
        try:
            for piece in pieces:
                response.add(piece)
                if not response.is_collected:
                    break
            else:
                is_whole = True
        except BaseException:
            _close(body)
            raise
        response.end(is_whole=is_whole)
        return _Rest(response.pieces, pieces, body)


class _Response:
    """A response whose head waits for the names."""

    def __init__(
        self, start_response: StartResponse, field: Field, record: recording.Recording, stored: Stored
    ) -> None:
        self.pieces: list[bytes] = []
        self._start_response, self._field, self._record, self._stored = start_response, field, record, stored
        self._head: tuple[str, list[tuple[str, str]], Any] | None = None
        self._bytes = 0

    def start(self, status: str, fields: list[tuple[str, str]], exc_info: Any = None, /) -> Callable[[bytes], object]:
        if self._record.is_over:
            return self._start_response(status, fields, exc_info)
        self._head = status, fields, exc_info
        return self.add

    @property
    def is_started(self) -> bool:
        return self._head is not None

    def add(self, piece: bytes) -> None:
        if piece:
            self.pieces.append(piece)
            self._bytes += len(piece)

    @property
    def is_collected(self) -> bool:
        """Whether to wait for the next piece. The first one is often all that there is."""
        if self._head is None or not self.pieces:
            return True
        if is_worth_waiting(self._head[1]):
            return self._bytes <= BODY_BYTES_MAX
        return len(self.pieces) == 1 and not is_read_along(self._head[1])

    def end(self, *, is_whole: bool) -> None:
        """Nothing that is read from now on can be named."""
        if not is_whole:
            self._record.refuse("its body is longer than what is waited for")
        names = recording.end(self._record, self._field.is_sayable)
        if self._head is None:
            return
        status, fields, exc_info = self._head
        fields = answer(fields, self._field, names) + self._stored(names)
        if exc_info is None:
            self._start_response(status, fields)
        else:
            self._start_response(status, fields, exc_info)


class _Unrecorded:
    """A body whose reads belong to no response."""

    def __init__(self, body: Iterable[bytes]) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        pieces = iter(self._body)
        while True:
            with recording.unrecorded():
                try:
                    piece = next(pieces)
                except StopIteration:
                    return
            yield piece

    def close(self) -> None:
        with recording.unrecorded():
            _close(self._body)


class _Rest(_Unrecorded):
    """The pieces that are there, and the rest as it comes."""

    def __init__(self, pieces: list[bytes], rest: Iterator[bytes], body: Iterable[bytes]) -> None:
        super().__init__(rest)
        self._pieces, self._source = pieces, body

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        yield from super().__iter__()

    def close(self) -> None:
        with recording.unrecorded():
            _close(self._source)


def _is_file(environ: WSGIEnvironment, body: object) -> bool:
    wrapper = environ.get("wsgi.file_wrapper")
    return isinstance(wrapper, type) and isinstance(body, wrapper)


def _close(body: object) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        close()
