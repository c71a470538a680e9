"""What is understood of statements, beside what PostgreSQL's own parser says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pglast
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pglast import ast
from pglast.visitors import Visitor
from postgres import Postgres
from queries import queries

from thorp_web import statements
from thorp_web.parameters import from_percent, many_from_percent
from thorp_web.statements import NOTHING, UNKNOWN, WRITE, Constant, Parameter, Reading, statement


def shown(reading: Reading) -> str:
    """`items(id=$1|7)`."""
    conditions = []
    for condition in reading.conditions:
        values = []
        for value in condition.values:
            match value:
                case Parameter(index, is_list):
                    values.append(f"${index + 1}{'[]' if is_list else ''}")
                case Constant(constant):
                    values.append(str(constant))
        conditions.append(f"{condition.column}={'|'.join(values)}")
    name = f"{reading.schema}.{reading.name}" if reading.schema else reading.name
    return f"{name}({', '.join(conditions)})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM items", "items()"),
        ("SELECT * FROM items WHERE id = $1", "items(id=$1)"),
        ("SELECT * FROM items WHERE 7 = id AND name = 'it''s'", "items(id=7, name=it's)"),
        ("SELECT * FROM public.items AS i WHERE i.id = $1::INTEGER", "public.items(id=$1)"),
        ('SELECT * FROM "Items" AS "I" WHERE "I".id IN ($1, $2)', "Items(id=$1|$2)"),
        ("SELECT * FROM items WHERE id = ANY($1::int[])", "items(id=$1[])"),
        ("SELECT * FROM items WHERE (id = 1 AND name = 'a') OR id = 2", "items(id=1|2)"),
        ("SELECT * FROM items WHERE id = 1 OR name = 'a'", "items()"),
        ("SELECT * FROM items WHERE NOT id = 1", "items()"),
        ("SELECT * FROM items WHERE id = 1.5", "items()"),
        ("SELECT * FROM items WHERE id = $1::numeric", "items()"),
        ("SELECT * FROM items WHERE id = 1 ORDER BY id LIMIT 1 FOR UPDATE", "items(id=1)"),
        ("SELECT FROM items AS i JOIN comments AS c ON c.x = i.id WHERE i.id = $1", "items(id=$1) comments(x=$1)"),
        ("SELECT * FROM items AS i LEFT JOIN comments AS c ON c.item_id = i.id AND c.id = 3", "items() comments(id=3)"),
        ("SELECT * FROM items AS i LEFT JOIN comments AS c ON i.id = 3", "items() comments()"),
        ("SELECT * FROM items AS i RIGHT JOIN comments AS c ON i.id = 3", "items() comments()"),
        ("SELECT * FROM items AS i FULL JOIN comments AS c ON i.id = c.id WHERE i.id = 3", "items(id=3) comments()"),
        ("SELECT FROM items AS i, comments AS c WHERE i.id = c.x AND c.x = 3", "items(id=3) comments(x=3)"),
        ("SELECT * FROM items JOIN comments USING (id) WHERE id = 3", "items() comments()"),
        ("SELECT FROM items AS i WHERE EXISTS (SELECT 1 FROM comments AS c WHERE i.id = 3)", "items() comments()"),
        ("SELECT FROM items AS i WHERE EXISTS (SELECT 1 FROM comments AS c WHERE c.id = 3)", "items() comments(id=3)"),
        ("SELECT * FROM items WHERE id = (SELECT 3 FROM comments)", "items() comments()"),
        ("WITH items AS (SELECT FROM items AS i WHERE i.id = 1) SELECT FROM items WHERE items.id = 2", "items(id=1)"),
        ("WITH RECURSIVE t AS (SELECT 1 UNION SELECT i.id FROM t JOIN items AS i ON i.id = t.id) TABLE t", "items()"),
        ("SELECT 1 FROM items UNION SELECT 2 FROM comments", "items() comments()"),
        ("TABLE items", "items()"),
        ("SELECT FROM items AS i WHERE id = 1 FOR UPDATE OF i", "items(id=1)"),
        ("SELECT pg_catalog.version(), lower(name) FROM items", "items()"),
        ("SELECT count(*), lower('x') FROM generate_series(1, 3) AS g", ""),
    ],
)  # fmt: skip
def test_tables_and_rows(text: str, expected: str) -> None:
    found = statement(text)
    assert sorted(map(shown, found.readings)) == sorted(expected.replace(") ", ")\n").splitlines())
    assert not found.writes and not found.reads_everything


@pytest.mark.parametrize(
    "text",
    [
        "SELECT total(3)",
        "SELECT shop.lower('x')",
        "SELECT \"Lower\"('x')",
        "SELECT lcase('x')",
        'SELECT * FROM U&"it\\0065ms"',
        "SELECT * FROM items AS i(a) WHERE i.a = 1",
        "SELECT FROM WHERE",
        "FETCH 3 FROM rows",
        "SELECT " + "1 + " * 10_000 + "1",
    ],
)
def test_the_rest_is_everything(text: str) -> None:
    assert statement(text) == UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO items SELECT 1",
        "UPDATE items SET id = 1",
        "/* a */ -- b\n DELETE FROM items",
        "WITH gone AS (DELETE FROM items RETURNING *) SELECT * FROM gone",
        "SELECT * INTO other FROM items",
        "SELECT 1; DELETE FROM items",
        "BEGIN; DELETE FROM items",
        "EXPLAIN ANALYZE DELETE FROM items",
        "CALL work()",
        "DO $$ BEGIN END $$",
        "TRUNCATE items",
        "COPY items FROM STDIN",
        "?",
        "/* a /* b */ BEGIN */ DELETE FROM items",
        "--" + " BEGIN" * 3000 + "\nDELETE FROM items",
    ],
)
def test_what_may_write(text: str) -> None:
    assert statement(text) == WRITE


@pytest.mark.parametrize("text", ["BEGIN", "commit;", "SAVEPOINT a", "SET a = b", "SHOW a", "/* a */ END", "", "-- a"])
def test_what_neither_reads_nor_writes(text: str) -> None:
    assert statement(text) == NOTHING


def tables_by_postgres(text: str) -> set[str]:
    """The names in the place of tables, by PostgreSQL's own grammar, without those of `WITH`."""
    found, common = set(), set()

    class Tables(Visitor):
        def visit_RangeVar(self, _: Any, node: ast.RangeVar) -> None:
            found.add(node.relname)

        def visit_CommonTableExpr(self, _: Any, node: ast.CommonTableExpr) -> None:
            common.add(node.ctename)

    Tables()(pglast.parse_sql(text))
    return found - common


def check_tables(text: str) -> None:
    found = statement(text)
    assert found.reads_everything or {reading.name for reading in found.readings} >= tables_by_postgres(text)


@pytest.mark.parametrize("text", (Path(__file__).parent / "statements.sql").read_text().splitlines())
def test_every_table_of_postgres_own_parser_in_odd_forms(text: str) -> None:
    check_tables(text)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(query=queries())
def test_every_table_of_postgres_own_parser(query: tuple[str, list[Any]]) -> None:
    numbered = from_percent(*query)
    assert numbered is not None
    check_tables(numbered[0])


WORDS = (
    "SELECT FROM WHERE JOIN LEFT ON USING WITH AS ( ) , . ; = IN ANY AND OR NOT EXISTS UNION VALUES TABLE ORDER "
    "BY items i comments id $1 7 'a' * :: int [ ] LATERAL NATURAL RECURSIVE CASE WHEN END \"items\" -- /* */ $$ E'"
).split()


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map(lambda words: " ".join(["SELECT", *words])))
def test_no_words_are_an_error(text: str) -> None:
    found = statement(text)
    try:
        tables = tables_by_postgres(text)
    except pglast.parser.ParseError:
        return
    assert found.reads_everything or found.writes or {reading.name for reading in found.readings} >= tables


def test_without_a_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "sqlglot", None)
    statements._parsed.cache_clear()
    assert statement("SELECT * FROM items WHERE id = 1") == UNKNOWN
    assert statement("BEGIN") == NOTHING
    statements._parsed.cache_clear()


def test_many_parameters() -> None:
    given = ([key] for key in range(3))
    text, again = many_from_percent("SELECT %s", given)
    assert text == "SELECT $1" and list(again) == [[0], [1], [2]]
    assert many_from_percent("SELECT %s", [[1, 2]])[0] is None
    assert many_from_percent("SELECT 1", [])[0] == "SELECT 1"


def test_parameters() -> None:
    assert from_percent("a %s %% %b", [1, 2]) == ("a $1 % $2", [1, 2])
    assert from_percent("a %(x)s %(y)s %(x)s", {"x": 1, "y": 2}) == ("a $1 $2 $1", [1, 2])
    assert from_percent("a % b", None) == ("a % b", ())
    for wrong in (
        ("a %s", [1, 2]),
        ("a % b", [1]),
        ("a %(x)s", {}),
        ("a %(x)s", [1]),
        ("%s", "a"),
        ("%s %(x)s", [1, 2]),
    ):
        assert from_percent(*wrong) is None


def test_the_known_functions_are_postgres_own(postgres: Postgres) -> None:
    grammar = {"coalesce", "extract", "greatest", "least", "nullif", "trim"}
    newer = {"any_value"}
    # They give another value each time, of no row.
    volatile = {"gen_random_uuid", "random", "set_config"}
    with psycopg.connect(postgres.url) as connection:
        query = (
            "SELECT proname, max(provolatile) FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace GROUP BY 1"
        )
        found = dict(connection.execute(query).fetchall())
    assert statements._FUNCTIONS - found.keys() <= grammar | newer
    assert {name for name in statements._FUNCTIONS if found.get(name) == "v"} <= volatile
