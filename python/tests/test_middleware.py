"""What the middleware says of responses, however they are made."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from wsgiref.util import FileWrapper, setup_testing_defaults

import pytest

from thorp_web import ASGIMiddleware, Map, WSGIMiddleware, depends_on, recording, unrecorded
from thorp_web.fields import BODY_BYTES_MAX
from thorp_web.map import Declared, Kind
from thorp_web.recording import NAMES_MAX

RULES = Map.of_columns(
    [Declared(f"public.{name}", ("id",), {"id": Kind.INTEGER, "name": Kind.TEXT}) for name in ("items", "notes")],
    ["notes.name"],
)
NOT_STORED = ("thorp-cache-control", "no-store")

Fields = list[tuple[str, str]]
Maker = Callable[[], Iterable[bytes]]


def read(text: str, *parameters: object) -> None:
    """Executes a statement, as a recorder sees it."""
    recording.read(text, parameters)


def by_wsgi(make: Maker, fields: Fields, method: str = "GET", field: str = "Cache-Groups") -> tuple[Fields, bytes]:
    """The fields of a response, with small letters, and its body."""
    given: list[Fields] = []

    def application(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", fields)
        return make()

    environ: dict[str, Any] = {"REQUEST_METHOD": method, "wsgi.file_wrapper": FileWrapper}
    setup_testing_defaults(environ)
    middleware = WSGIMiddleware(application, RULES, field=field)
    body = middleware(environ, lambda _status, fields, _info=None: given.append(fields))
    whole = b"".join(body)
    getattr(body, "close", lambda: None)()
    return [(name.lower(), value) for name, value in given[-1]], whole


def by_asgi(make: Maker, fields: Fields, method: str = "GET", field: str = "Cache-Groups") -> tuple[Fields, bytes]:
    sent: list[Any] = []

    async def application(_scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        headers = [(name.lower().encode(), value.encode()) for name, value in fields]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        body = make()
        # A list is a body that is whole; all else comes piece by piece.
        if isinstance(body, list):
            await send({"type": "http.response.body", "body": b"".join(body)})
            return
        for piece in body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: Any) -> None:
        sent.append(message)

    middleware = ASGIMiddleware(application, RULES, field=field)
    asyncio.run(middleware({"type": "http", "method": method}, None, send))  # type: ignore[arg-type]
    given = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
    return given, b"".join(message["body"] for message in sent[1:])


@pytest.fixture(params=[by_wsgi, by_asgi], ids=["wsgi", "asgi"])
def by(request: pytest.FixtureRequest) -> Any:
    return request.param


def whole(*statements: tuple[Any, ...]) -> Maker:
    def make() -> list[bytes]:
        for each in statements:
            read(*each)
        return [b"a", b"b"]

    return make


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([("SELECT * FROM items WHERE id = $1", 7)], '"items:7"'),
        ([("SELECT * FROM items WHERE id = 7",), ("SELECT * FROM notes",)], '"notes", "items:7"'),
        ([("SELECT * FROM items WHERE id = 7",), ("SELECT * FROM items",)], '"items"'),
        ([("SELECT * FROM notes WHERE name = $1", 'a"b\\')], '"notes.name:a\\"b\\\\"'),
        ([("SELECT * FROM notes WHERE name = $1", "é")], '"notes"'),
        ([("SELECT * FROM notes WHERE name = $1", "x" * 256)], '"notes"'),
        ([("SELECT * FROM elsewhere",)], '"any"'),
        ([("SELECT total(3)",)], '"any"'),
        ([], '"any"'),
        ([("SELECT * FROM items WHERE id = $1", key) for key in range(NAMES_MAX + 1)], '"items"'),
        ([("SELECT * FROM notes WHERE name = $1", f"{key:200}") for key in range(100)], '"notes"'),
    ],
)
def test_names(by: Any, statements: list[Any], expected: str) -> None:
    assert by(whole(*statements), []) == ([("cache-groups", expected)], b"ab")


def test_older_fields(by: Any) -> None:
    make = whole(("SELECT * FROM items WHERE id = 7",), ("SELECT * FROM notes WHERE name = 'a b'",))
    assert by(make, [], field="Surrogate-Key")[0] == [("surrogate-key", "notes items:7")]
    assert by(make, [], field="Cache-Tag")[0] == [("cache-tag", "notes,items:7")]


def test_a_response_that_writes_is_not_stored(by: Any) -> None:
    fields = [("Thorp-Cache-Control", "max-age=3"), ("A", "b")]
    make = whole(("SELECT * FROM items",), ("UPDATE items SET name = 'a'",))
    assert by(make, fields)[0] == [("a", "b"), NOT_STORED]


def test_nothing_is_said_of_other_methods(by: Any) -> None:
    assert by(whole(("SELECT * FROM items",)), [], "POST") == ([], b"ab")
    assert by(whole(("SELECT * FROM items",)), [], "HEAD")[0] == [("cache-groups", '"items"')]


def test_an_application_names_dependencies(by: Any) -> None:
    def make(*names: str) -> list[bytes]:
        depends_on(*names)
        return []

    assert by(lambda: make("a", "b"), [("Cache-Groups", '"c"')])[0][1:] == [("cache-groups", '"a", "b"')]
    assert by(lambda: make(), [])[0] == []
    assert by(lambda: make(*map(str, range(NAMES_MAX + 1))), [])[0] == [NOT_STORED]
    with pytest.raises(ValueError, match="256 bytes"):
        by(lambda: make("x" * 257), [])


def pieces(count: int, size: int = 1) -> Maker:
    """A body that reads while it is sent."""

    def make() -> Iterable[bytes]:
        for number in range(count):
            read("SELECT * FROM items WHERE id = $1", number)
            yield b"x" * size

    return make


def test_bodies_in_pieces(by: Any) -> None:
    fresh = [("Cache-Control", "max-age=60")]
    assert by(pieces(1), [])[0] == [("cache-groups", '"items:0"')]
    assert by(pieces(3), fresh)[0][1] == ("cache-groups", '"items:0", "items:1", "items:2"')
    assert by(pieces(3), []) == ([NOT_STORED], b"xxx"), "nobody may store it, so nobody waits"
    assert by(pieces(3), [("Cache-Control", "private, max-age=60")])[0][1] == NOT_STORED
    assert by(pieces(1), [("Content-Type", "text/event-stream")])[0][1] == NOT_STORED
    found, body = by(pieces(5, BODY_BYTES_MAX // 2), fresh)
    assert found[1] == NOT_STORED and len(body) == 5 * (BODY_BYTES_MAX // 2)


def test_a_stream_of_events_is_not_held_up() -> None:
    order = []

    def make() -> Iterable[bytes]:
        for number in range(2):
            order.append(f"made {number}")
            yield b"data\n\n"

    environ = {"REQUEST_METHOD": "GET"}
    start = lambda *_: order.append("head")  # noqa: E731

    def application(_environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return make()

    for _ in WSGIMiddleware(application, RULES)(environ, start):
        order.append("sent")
    assert order == ["made 0", "head", "sent", "made 1", "sent"]


def test_a_file_of_the_servers() -> None:
    with open(__file__, "rb") as file:
        fields, body = by_wsgi(lambda: FileWrapper(file), [])
    assert fields == [("cache-groups", '"any"')] and b"FileWrapper" in body


def test_a_thread_of_the_applications_own_may_read_for_anybody(by: Any) -> None:
    def in_thread(work: Callable[[], None]) -> list[bytes]:
        read("SELECT * FROM items WHERE id = 7")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return []

    def job() -> None:
        with unrecorded():
            read("SELECT * FROM notes")

    assert by(lambda: in_thread(lambda: read("SELECT * FROM notes")), [])[0] == [("cache-groups", '"any"')]
    assert by(lambda: in_thread(lambda: read("COMMIT")), [])[0] == [("cache-groups", '"items:7"')]
    assert by(lambda: in_thread(job), [])[0] == [("cache-groups", '"items:7"')]
    assert by(lambda: in_thread(lambda: recording.refuse("another database")), [])[0] == [NOT_STORED]
    assert by(lambda: in_thread(lambda: depends_on("a")), [])[0] == [NOT_STORED]


def test_tasks_and_threads_with_the_context_read_for_their_request() -> None:
    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await asyncio.gather(asyncio.to_thread(read, "SELECT * FROM items WHERE id = 7"), work())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        # A job after the response is nobody's.
        read("SELECT * FROM items")

    async def work() -> None:
        read("SELECT * FROM notes WHERE id = 8")

    async def ask() -> Any:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await ASGIMiddleware(application, RULES)({"type": "http", "method": "GET"}, None, send)  # type: ignore[arg-type]
        return dict(sent[0]["headers"])[b"cache-groups"]

    async def several() -> list[Any]:
        return await asyncio.gather(*(ask() for _ in range(5)))

    for found in asyncio.run(several()):
        assert sorted(found.decode().split(", ")) == ['"items:7"', '"notes:8"']


def test_an_error_ends_the_recording(by: Any) -> None:
    def make() -> list[bytes]:
        raise KeyError

    with pytest.raises(KeyError):
        by(make, [])
    assert not recording._under_way
