"""Real applications behind real proxies and nginx, a real watcher and a real PostgreSQL: no response is older than a
commit that has ended, and most responses come from what these have stored."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
import uvicorn
import waitress
from nginx import Nginx
from postgres import Postgres
from programs import Program, proxy, watcher
from shop import COLUMNS, SCHEMA, Base, Item
from sqlalchemy.orm import Session
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import thorp_web.psycopg
import thorp_web.sqlalchemy
from thorp_web import ASGIMiddleware, Map, WSGIMiddleware

ITEMS = 20
CATEGORIES = 4
LOAD_S = 2
PATIENCE_S = 60

# Each item's `price` counts its updates, and a category's page has those of its items.
FILL = f"""
TRUNCATE items, comments;
INSERT INTO items SELECT i, i % {CATEGORIES}, 'item', 0 FROM generate_series(0, {ITEMS} - 1) AS i;
ALTER TABLE items REPLICA IDENTITY FULL;
ALTER TABLE comments REPLICA IDENTITY FULL;
"""


def wsgi_application(url: str) -> Callable[..., Any]:
    """By SQLAlchemy's ORM."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), pool_size=8)
    thorp_web.sqlalchemy.record(engine)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        _, kind, key = environ["PATH_INFO"].split("/")
        with Session(engine) as session:
            if kind == "items":
                items = [session.get_one(Item, int(key))]
            else:
                items = list(session.scalars(sa.select(Item).where(Item.category == int(key))))
            found = {item.id: int(item.price or 0) for item in items}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(found).encode()]

    return application


def asgi_application(url: str) -> Starlette:
    """By psycopg, asynchronously."""

    async def rows(request: Request) -> JSONResponse:
        column = "id" if request.path_params["kind"] == "items" else "category"
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            thorp_web.psycopg.record(connection)
            query = f"SELECT id, price::int FROM items WHERE {column} = %s"
            cursor = await connection.execute(query, [request.path_params["key"]])
            return JSONResponse(dict(await cursor.fetchall()))

    return Starlette(routes=[Route("/{kind}/{key:int}", rows)])


@contextlib.contextmanager
def serving_wsgi(application: Any) -> Iterator[str]:
    server = waitress.create_server(application, host="127.0.0.1", port=0, threads=8)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        server.close()
        thread.join()


@contextlib.contextmanager
def serving_asgi(application: Any) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until("it listens", lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def until(what: str, holds: Callable[[], bool]) -> None:
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < PATIENCE_S, f"waited in vain until {what}"
        time.sleep(0.01)


class Reader:
    """A client of a proxy, or of an nginx, with a connection of its own."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)

    def read(self, path: str) -> tuple[dict[int, int], bool]:
        """The versions of the items that a page shows, and whether it comes from the proxy."""
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        is_hit = "hit" in (response.getheader("Cache-Status") or "") or response.getheader("X-Cache-Status") == "HIT"
        return {int(item): version for item, version in json.loads(body).items()}, is_hit


class Load:
    """Writers that commit, and readers that know what was committed before they ask."""

    def __init__(self, database: str, proxies: list[str]) -> None:
        self._database, self._proxies = database, proxies
        with psycopg.connect(database) as connection:
            found = connection.execute("SELECT price::int FROM items ORDER BY id").fetchall()
        self._done = [price for (price,) in found]
        self._stop = threading.Event()
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def run(self, *, until_fault: bool = False) -> None:
        work = [self._write] + 2 * [lambda address=address: self._read(address) for address in self._proxies]
        threads = [threading.Thread(target=self._guard, args=(task,)) for task in work]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        # On a busy machine a proxy may lose its lease for a while, so hits are waited for. A fault ends it early.
        try:
            is_enough = lambda: not until_fault and self._is_enough(time.monotonic() - begun)  # noqa: E731
            until("most responses are hits", lambda: bool(self.faults) or is_enough())
        finally:
            self._stop.set()
        for thread in threads:
            thread.join()

    def _is_enough(self, elapsed_s: float) -> bool:
        counts = self.counts
        return elapsed_s > LOAD_S and counts["writes"] > 0 and counts["hits"] > counts["misses"]

    def _guard(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception as error:
            self.faults.append(repr(error))

    def _write(self) -> None:
        draw = random.Random(1)
        with psycopg.connect(self._database, autocommit=True) as connection:
            # The pause keeps writers from being all that there is.
            while not self._stop.wait(0.02):
                item = draw.randrange(ITEMS)
                connection.execute("UPDATE items SET price = price + 1 WHERE id = %s", [item])
                self._done[item] += 1
                self.counts["writes"] += 1

    def _read(self, address: str) -> None:
        draw, reader = random.Random(address), Reader(address)
        while not self._stop.is_set():
            item = min(draw.randrange(ITEMS), draw.randrange(ITEMS))
            is_category = draw.randrange(8) == 0
            path = f"/categories/{item % CATEGORIES}" if is_category else f"/items/{item}"
            before = list(self._done)
            seen, is_hit = reader.read(path)
            self.counts["hits" if is_hit else "misses"] += 1
            shown = [i for i in range(ITEMS) if i % CATEGORIES == item % CATEGORIES] if is_category else [item]
            for item in shown:
                if seen.get(item, -1) < before[item]:
                    self.faults.append(f"{path} of {address}: item {item} is {seen.get(item)}, not {before[item]}")


@dataclass
class Site:
    """A database with a watcher, and the map of both sides."""

    database: str
    hub: str
    rules: Map

    def proxy(self, stack: contextlib.ExitStack, origin: str) -> str:
        """A proxy that stores what the application says, and where it listens."""
        program, address = proxy(origin, self.hub)
        stack.callback(program.stop)
        reader = Reader(address)
        until("it stores", lambda: reader.read("/items/1")[1])
        return address


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    file = tmp_path_factory.mktemp("site") / "map.toml"
    file.write_text(thorp_web.sqlalchemy.map_of(Base.metadata, COLUMNS).toml())
    # As an application that has the watcher's file does.
    rules = thorp_web.sqlalchemy.map_of(Base.metadata).with_rules(file.read_text())
    server = Postgres()
    try:
        with psycopg.connect(server.url) as connection:
            connection.execute(SCHEMA + FILL)
        watching, hub = watcher(server.url, file)
        yield Site(server.url, hub, rules)
        watching.kill()
    finally:
        server.stop()


def test_no_response_is_older_than_a_commit(site: Site) -> None:
    with contextlib.ExitStack() as stack:
        applications = [
            serving_wsgi(WSGIMiddleware(wsgi_application(site.database), site.rules)),
            serving_asgi(ASGIMiddleware(asgi_application(site.database), site.rules)),
        ]
        proxies = [site.proxy(stack, stack.enter_context(application)) for application in applications]
        load = Load(site.database, proxies)
        load.run()
    print(load.counts)
    assert not load.faults, load.faults[:5]


def test_an_nginx_that_asks_uses_nothing_older(site: Site, tmp_path: Path) -> None:
    helper = tmp_path / "verify"
    verify = Program("verify", helper, "--hub", site.hub)
    assert verify.line()["socket"] == str(helper)
    with contextlib.ExitStack() as stack:
        stack.callback(verify.stop)
        applications = [
            serving_wsgi(WSGIMiddleware(wsgi_application(site.database), site.rules, verify=str(helper))),
            serving_asgi(ASGIMiddleware(asgi_application(site.database), site.rules, verify=str(helper))),
        ]
        addresses = []
        for number, application in enumerate(applications):
            folder = tmp_path / str(number)
            folder.mkdir()
            nginx = Nginx(folder, stack.enter_context(application), helper)
            stack.callback(nginx.stop)
            until("it keeps", lambda address=nginx.address: keeps(address))
            addresses.append(nginx.address)
        load = Load(site.database, addresses)
        load.run()
    print(load.counts)
    assert not load.faults, load.faults[:5]


def keeps(address: str) -> bool:
    """Whether a page comes from what an nginx has kept."""
    try:
        return Reader(address).read("/items/1")[1]
    except ConnectionRefusedError:
        return False


def test_an_application_that_names_other_rows_is_noticed(site: Site) -> None:
    """The check above can fail."""
    wrong = site.rules.with_rules(site.rules.toml().replace('"items:{id}"', '"others:{id}"'))
    with contextlib.ExitStack() as stack:
        application = WSGIMiddleware(wsgi_application(site.database), wrong)
        load = Load(site.database, [site.proxy(stack, stack.enter_context(serving_wsgi(application)))])
        load.run(until_fault=True)
    assert any("item" in fault for fault in load.faults)
