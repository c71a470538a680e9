"""`python -m thorp_web`."""

from __future__ import annotations

import psycopg
import pytest
from postgres import Postgres
from psycopg.conninfo import make_conninfo
from shop import COLUMNS, Base

from thorp_web.__main__ import main
from thorp_web.sqlalchemy import map_of

OPTIONS = [word for column in COLUMNS for word in ("--column", column)]


def test_the_map_is_printed(postgres: Postgres, capsys: pytest.CaptureFixture[str]) -> None:
    expected = map_of(Base.metadata, COLUMNS).toml()
    assert main(["map", "sqlalchemy", "shop:Base.metadata", *OPTIONS]) == 0
    assert capsys.readouterr().out == expected
    assert main(["map", "postgres", postgres.url, *OPTIONS]) == 0
    assert capsys.readouterr().out == expected


def test_a_fault_is_said_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", "sqlalchemy", "shop:Base.metadata", "--column", "items.price"]) == 2
    assert main(["map", "sqlalchemy", "shop:Nothing"]) == 2
    price, nothing = capsys.readouterr().err.splitlines()
    assert "items.price" in price and "Nothing" in nothing


def test_the_database_is_compared(postgres: Postgres, capsys: pytest.CaptureFixture[str]) -> None:
    check = ["check", "sqlalchemy", "shop:Base.metadata", *OPTIONS, "--database"]
    assert main([*check, postgres.url]) == 0
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE other")
    other = make_conninfo(postgres.url, dbname="other")
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("""
            CREATE VIEW items AS SELECT 1 AS id;
            CREATE TABLE pairs (a int, b char(3), PRIMARY KEY (a, b));
            CREATE TABLE comments (id int PRIMARY KEY, item_id int, author text) PARTITION BY LIST (id);
            CREATE UNLOGGED TABLE odd ();
        """)
    assert main([*check, other]) == 1
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == 2, lines
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("CREATE PUBLICATION of_partitions FOR ALL TABLES")
    assert main([*check, other]) == 1
    assert "public.comments is no table" in capsys.readouterr().out, "its partitions are"
    assert lines[0].startswith("public.items is no table") and lines[1].startswith("public.pairs.b is of a type")
