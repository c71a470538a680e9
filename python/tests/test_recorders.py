"""What the recorders see of SQLAlchemy, Django and psycopg."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import django.db
import psycopg
import pytest
import sqlalchemy as sa
from postgres import Postgres
from psycopg import sql
from shop import COLUMNS, Base, Comment, Item, Pair
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, joinedload, selectinload
from worlds import names_read

import thorp_web.psycopg
import thorp_web.sqlalchemy
from thorp_web import recording
from thorp_web.fields import Field

RULES = thorp_web.sqlalchemy.map_of(Base.metadata, COLUMNS)


def url(postgres: Postgres, driver: str = "psycopg") -> str:
    return postgres.url.replace("postgresql:", f"postgresql+{driver}:")


@pytest.fixture(scope="module")
def engine(postgres: Postgres) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url(postgres))
    thorp_web.sqlalchemy.record(engine)
    with engine.connect():
        pass  # The first connection asks the server who it is.
    yield engine
    engine.dispose()


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda s: s.get(Item, 1), ["items:1"]),
        (lambda s: s.get(Item, 77), ["items:77"]),
        (lambda s: s.get(Pair, (1, "a")), ["pairs:1,a"]),
        (lambda s: s.scalars(sa.select(Item).where(Item.category == 1)).all(), ["items.category:1"]),
        (lambda s: s.scalars(sa.select(Item).where(Item.name == "a")).all(), ["items"]),
        (lambda s: s.scalars(sa.select(Item).where(Item.id.in_([1, 2]))).all(), ["items:1", "items:2"]),
        (lambda s: s.scalars(sa.select(Item).where(sa.or_(Item.id == 1, Item.id == 2))).all(), ["items:1", "items:2"]),
        (lambda s: s.scalar(sa.select(sa.func.count()).select_from(Comment)), ["comments"]),
        (lambda s: s.get(Item, 1).comments, ["comments.item_id:1", "items:1"]),
        (lambda s: s.get(Comment, 1).item, ["comments:1", "items:1"]),
        (lambda s: s.get(Item, 1, options=[selectinload(Item.comments)]), ["comments.item_id:1", "items:1"]),
        (lambda s: s.get(Item, 1, options=[joinedload(Item.comments)]), ["comments.item_id:1", "items:1"]),
        (lambda s: s.refresh(s.get(Item, 1)), ["items:1"]),
        (lambda s: s.execute(sa.text("SELECT * FROM items WHERE id = :id"), {"id": 3}).all(), ["items:3"]),
        (lambda s: s.execute(sa.text("SELECT * FROM items WHERE name LIKE 'a%'")).all(), ["items"]),
        (lambda s: s.execute(sa.text("SELECT * FROM cheap")).all(), ["any"]),
        (lambda s: s.execute(sa.select(Item).where(Item.id == 1).with_for_update()).all(), ["items:1"]),
        (lambda s: s.execute(sa.select(Item.id).filter_by(id=1).union(sa.select(Pair.a))), ["items:1", "pairs"]),
    ],
)  # fmt: skip
def test_sqlalchemy(engine: sa.Engine, read: Callable[[Session], Any], expected: list[str]) -> None:
    with Session(engine) as session:
        assert sorted(names_read(RULES, lambda: read(session))) == expected


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_sqlalchemy_asynchronously(postgres: Postgres, driver: str) -> None:
    async def work() -> None:
        engine = create_async_engine(url(postgres, driver))
        thorp_web.sqlalchemy.record(engine)
        async with AsyncSession(engine) as session:
            await session.get(Item, 1)
        async with AsyncSession(engine) as session:
            await found(session)
        await engine.dispose()

    async def found(session: AsyncSession) -> None:
        record = recording.begin(RULES)
        with recording.recording_to(record):
            await session.get(Item, 1)
            await session.stream(sa.select(Pair).where(Pair.a == 1, Pair.b == "a"))
        assert sorted(recording.end(record, Field("Cache-Groups").is_sayable) or []) == ["items:1", "pairs:1,a"]

    asyncio.run(work())


def is_stored(read: Callable[[], Any]) -> bool:
    record = recording.begin(RULES)
    with recording.recording_to(record):
        read()
    return recording.end(record, Field("Cache-Groups").is_sayable) is not None


def test_another_engine_is_not_watched(engine: sa.Engine, postgres: Postgres) -> None:
    for other in (sa.create_engine("sqlite://"), sa.create_engine(url(postgres))):
        with other.connect() as connection:
            assert not is_stored(lambda connection=connection: connection.execute(sa.text("SELECT 1")))
        other.dispose()
    with engine.execution_options(logging_token="a").connect() as connection:
        assert is_stored(lambda: connection.execute(sa.text("SELECT * FROM items")))
        assert not is_stored(lambda: connection.execute(sa.update(Item).values(name="a")))


@pytest.mark.parametrize(
    ("query", "parameters", "expected"),
    [
        ("SELECT * FROM items WHERE id = %s", [1], ["items:1"]),
        ("SELECT * FROM items WHERE id = %(id)s", {"id": 1}, ["items:1"]),
        (b"SELECT * FROM items WHERE id = ANY(%s)", [[1, 2]], ["items:1", "items:2"]),
        (sql.SQL("SELECT * FROM {} WHERE id = {}").format(sql.Identifier("items"), 1), None, ["items:1"]),
        ("SELECT * FROM items WHERE name LIKE 'a%'", None, ["items"]),
        ("SELECT pg_backend_pid()", None, ["any"]),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "server", "client", "stream"])
def test_psycopg(postgres: Postgres, query: Any, parameters: Any, expected: list[str], kind: str) -> None:
    factory = psycopg.ClientCursor if kind == "client" else psycopg.Cursor
    with psycopg.connect(postgres.url, cursor_factory=factory) as connection:
        thorp_web.psycopg.record(connection)
        cursor = connection.cursor("named") if kind == "server" else connection.cursor()
        if kind == "stream":
            read = lambda: list(cursor.stream(query, parameters))  # noqa: E731
        else:
            read = lambda: cursor.execute(query, parameters).fetchall()  # noqa: E731
        assert sorted(names_read(RULES, read)) == expected


def test_psycopg_in_other_ways(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url) as connection:
        thorp_web.psycopg.record(connection)
        thorp_web.psycopg.record(connection)
        raw = thorp_web.psycopg.recording_cursor(psycopg.RawCursor)(connection)
        assert names_read(RULES, lambda: raw.execute("SELECT * FROM items WHERE id = $1", [1])) == ["items:1"]
        assert names_read(RULES, lambda: connection.execute("SELECT * FROM items WHERE id = 1")) == ["items:1"]
        cursor = connection.cursor()

        def copy() -> None:
            with cursor.copy("COPY (SELECT * FROM items) TO STDOUT") as rows:
                list(rows)

        assert not is_stored(copy), "a copy is not looked into"
        insert = "INSERT INTO pairs VALUES (%s, %s)"
        assert not is_stored(lambda: cursor.executemany(insert, [(7, "a"), (8, "a")]))
        select = "SELECT * FROM items WHERE id = %s"
        assert names_read(RULES, lambda: cursor.executemany(select, [[1], [2]], returning=True)) == ["items"]
        connection.rollback()


def test_psycopg_asynchronously(postgres: Postgres) -> None:
    async def work() -> list[str] | None:
        record = recording.begin(RULES)
        async with await psycopg.AsyncConnection.connect(postgres.url) as connection:
            thorp_web.psycopg.record(connection)
            with recording.recording_to(record):
                await connection.execute("SELECT * FROM items WHERE id = %s", [1])
                async for _ in connection.cursor().stream("SELECT * FROM pairs WHERE a = 1 AND b = 'a'"):
                    pass
        return recording.end(record, Field("Cache-Groups").is_sayable)

    assert sorted(asyncio.run(work()) or []) == ["items:1", "pairs:1,a"]


def test_the_maps_are_the_same(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url) as connection:
        catalog = thorp_web.psycopg.map_of(connection, COLUMNS)
    assert catalog == RULES
    assert RULES.differences(catalog) == []


def test_django(models: Any) -> None:
    import thorp_web.django

    rules = thorp_web.django.map_of(COLUMNS)
    assert rules.tables == {name: RULES.tables[name] for name in ("public.items", "public.comments")}
    item, comment = models.Item.objects, models.Comment.objects
    list(item.all())

    def check(read: Callable[[], Any], *expected: str) -> None:
        assert sorted(names_read(rules, read)) == sorted(expected)

    check(lambda: item.get(pk=1), "items:1")
    check(lambda: item.filter(pk=77).first(), "items:77")
    check(lambda: list(item.filter(category=1)), "items.category:1")
    check(lambda: list(item.filter(name__contains="a")), "items")
    check(lambda: item.count(), "items")
    check(lambda: item.in_bulk([1, 2]), "items:1", "items:2")
    check(lambda: comment.get(pk=1).item, "comments:1", "items:1")
    check(lambda: list(item.get(pk=1).comments.all()), "items:1", "comments.item_id:1")
    check(lambda: list(item.filter(pk=1).prefetch_related("comments")), "items:1", "comments.item_id:1")
    check(lambda: list(item.filter(comments__author="a")), "items", "comments.author:a")
    check(lambda: list(item.filter(pk=1).iterator()), "items:1")
    check(lambda: list(item.raw("SELECT * FROM items WHERE id = %s", [1])), "items:1")
    check(lambda: list(models.Cheap.objects.all()), "any")
    with django.db.connection.cursor() as cursor:
        check(lambda: cursor.execute("SELECT * FROM items WHERE id = %(id)s", {"id": 1}), "items:1")
    assert not is_stored(lambda: item.filter(pk=77).update(name="a"))
    with django.db.connections["other"].cursor() as cursor:
        assert not is_stored(lambda: cursor.execute("SELECT 1"))


def test_django_asynchronously(models: Any) -> None:
    async def work() -> list[str] | None:
        record = recording.begin(RULES)
        with recording.recording_to(record):
            await models.Item.objects.aget(pk=1)
        return recording.end(record, Field("Cache-Groups").is_sayable)

    assert asyncio.run(work()) == ["items:1"]
