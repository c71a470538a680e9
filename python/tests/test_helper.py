"""Responses behind a server that keeps them, and asks `thorp verify` whether it may use them."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from programs import Program, run

from thorp_web import ASGIMiddleware, Map, WSGIMiddleware, recording
from thorp_web.map import Declared, Kind

RULES = Map.of_columns([Declared("public.items", ("id",), {"id": Kind.INTEGER})], [])
KEY = "http://shop.example/items/7"


class Verify:
    """A helper that runs."""

    def __init__(self, socket: Path) -> None:
        self.socket = str(socket)
        self._program = Program("verify", socket, "--listen", "127.0.0.1:0")
        self.address = str(self._program.line()["listen"])
        self._program.drain()

    def look(self) -> http.client.HTTPResponse:
        """What may be used for the key, as soon as there is a home."""
        while True:
            connection = http.client.HTTPConnection(self.address)
            connection.request("GET", "/look", headers={"Thorp-Key": KEY})
            answer = connection.getresponse()
            if answer.headers["Thorp-State"] != "away":
                return answer
            time.sleep(0.01)

    def stop(self) -> None:
        self._program.stop()


@pytest.fixture
def verify(tmp_path: Path) -> Iterator[Verify]:
    started = Verify(tmp_path / "verify")
    yield started
    started.stop()


def by_wsgi(address: str, ticket: str, *, writes: bool = False) -> dict[str, str]:
    """The fields of the response to a request with a ticket."""
    found: dict[str, str] = {}

    def application(_environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [])
        recording.read("UPDATE items SET id = 8" if writes else "SELECT * FROM items WHERE id = $1", (7,))
        return [b"page"]

    environ: dict[str, Any] = {"HTTP_THORP_TICKET": ticket}
    setup_testing_defaults(environ)
    middleware = WSGIMiddleware(application, RULES, verify=address)
    list(middleware(environ, lambda _status, fields, _info=None: found.update(fields)))  # type: ignore[arg-type]
    return {name.lower(): value for name, value in found.items()}


def by_asgi(address: str, ticket: str, *, writes: bool = False) -> dict[str, str]:
    sent: list[Any] = []

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        recording.read("UPDATE items SET id = 8" if writes else "SELECT * FROM items WHERE id = $1", (7,))
        await send({"type": "http.response.body", "body": b"page"})

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "headers": [(b"thorp-ticket", ticket.encode())]}
    asyncio.run(ASGIMiddleware(application, RULES, verify=address)(scope, None, send))  # type: ignore[arg-type]
    return {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@pytest.fixture(params=[by_wsgi, by_asgi], ids=["wsgi", "asgi"])
def by(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_response_is_stored_until_it_changes(by: Any, verify: Verify) -> None:
    look = verify.look().headers
    assert look["Thorp-State"] == "fill"
    fields = by(verify.socket, look["Thorp-Ticket"])
    assert (fields["cache-groups"], fields["thorp-stored"]) == ('"items:7"', look["Thorp-Version"])
    assert verify.look().headers["Thorp-State"] == "current"
    # At its address the same.
    assert by(verify.address, look["Thorp-Ticket"])["thorp-stored"] == look["Thorp-Version"]
    run("invalidate", "--admin", verify.address, "items:7")
    assert verify.look().headers["Thorp-Version"] != look["Thorp-Version"]
    assert "thorp-stored" not in by(verify.socket, look["Thorp-Ticket"]), "its ticket is of before"


def test_a_response_that_is_not_to_be_stored_is_not(by: Any, verify: Verify) -> None:
    ticket = verify.look().headers["Thorp-Ticket"]
    assert "thorp-stored" not in by(verify.socket, ticket, writes=True)
    assert "thorp-stored" not in by(verify.socket, "")
    assert "thorp-stored" not in by(verify.socket, "invented")
    assert by("/nowhere/verify", ticket)["cache-groups"] == '"items:7"', (
        "without the helper it is a response all the same"
    )
