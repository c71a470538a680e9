"""The map, from declared tables to names."""

from __future__ import annotations

import uuid

import pytest

from thorp_web.map import Declared, Kind, Map, MapError, Template
from thorp_web.statements import Reading, statement

ITEMS = Declared("public.items", ("id",), {"id": Kind.INTEGER, "category": Kind.INTEGER, "name": Kind.TEXT})
ORDERS = Declared("sales.orders", ("a", "b"), {"a": Kind.UUID, "b": Kind.TEXT})


def names(rules: Map, text: str, *parameters: object) -> list[str]:
    """The names of the only table that a statement reads."""
    (reading,) = statement(text).readings
    found = rules.names_of(reading, parameters)
    assert found is not None
    rows = [name for of_table in found.of_rows.values() for name in of_table]
    return [*(name for name in found.of_tables if name != "*"), *rows]


def test_the_file_of_the_watcher() -> None:
    rules = Map.of_columns([ITEMS, ORDERS], ["items.category"])
    assert rules.toml() == (
        'others = ["any"]\n'
        '\n[tables."public.items"]\n'
        '# Wants old values: ALTER TABLE "public"."items" REPLICA IDENTITY FULL\n'
        'rows = ["any", "items", "items:{id}", "items.category:{category}"]\nwhole = ["*"]\n'
        '\n[tables."sales.orders"]\n'
        'rows = ["any", "sales.orders", "sales.orders:{a},{b}"]\nwhole = ["*"]\n'
    )
    assert rules.with_rules(rules.toml()) == rules
    with pytest.raises(MapError, match="price"):
        Map.of_columns([ITEMS], ["items.price"])


def test_rows_by_their_values() -> None:
    rules = Map.of_columns([ITEMS, ORDERS], ["items.category"])
    assert names(rules, "SELECT * FROM items WHERE id = $1", 7) == ["items:7"]
    assert names(rules, "SELECT * FROM items WHERE id = ANY($1)", [7, 8]) == ["items:7", "items:8"]
    assert names(rules, "SELECT * FROM items WHERE category = 7") == ["items.category:7"]
    assert names(rules, "SELECT * FROM items WHERE name = 'a'") == ["items"]
    key = uuid.UUID(int=7)
    for value in (key, str(key), str(key).upper().replace("-", "")):
        assert names(rules, "SELECT * FROM orders WHERE a = $1 AND b = 'x'", value) == [f"sales.orders:{key},x"]
    assert names(rules, "SELECT * FROM orders WHERE a = $1", key) == ["sales.orders"]


@pytest.mark.parametrize("value", [None, "7", 7.0, True, b"7", list(range(65))])
def test_a_value_whose_text_is_not_certain_is_the_table(value: object) -> None:
    rules = Map.of_columns([ITEMS])
    operator = "= ANY($1)" if isinstance(value, list) else "= $1"
    assert names(rules, f"SELECT * FROM items WHERE id {operator}", value) == ["items"]


def test_a_table_without_a_schema_is_every_table_of_that_name() -> None:
    other = Declared("tenant.items", ("id",), {"id": Kind.INTEGER})
    assert names(Map.of_columns([ITEMS, other]), "SELECT * FROM items WHERE id = 7") == ["items:7", "tenant.items:7"]
    assert names(Map.of_columns([ITEMS, other]), "SELECT * FROM tenant.items WHERE id = 7") == ["tenant.items:7"]


def test_tables_without_rules_and_views() -> None:
    rules = Map.of_columns([ITEMS])
    assert names(rules, "SELECT * FROM cheap WHERE id = 7") == ["any"]
    assert names(rules.with_views({"public.cheap": ["public.items"]}), "SELECT * FROM cheap") == ["items"]
    with pytest.raises(MapError, match=r"public\.orders"):
        rules.with_views({"public.cheap": ["public.orders"]})


def test_the_rules_of_an_operator() -> None:
    text = 'others = ["*"]\n[tables."public.items"]\nrows = ["item:{id}"]\nwhole = ["items"]\n'
    rules = Map.of_columns([ITEMS]).with_rules(text)
    assert names(rules, "SELECT * FROM items WHERE id = 7") == ["items", "item:7"], "it asks for the whole, too"
    assert rules.names_of(Reading(None, "items"), ()) is None, "no name is on every row"
    assert rules.everything is None
    assert rules.with_rules(text.replace("item:{id}", 'item:{id}", "row')).everything == ("row",)
    assert Map.of_columns([]).with_rules("").everything == ("*",)
    with pytest.raises(MapError):
        rules.with_rules('[tables."public.items"]\nrows = ["item:{id"]\n')


def test_templates() -> None:
    assert str(Template.parse("a{b}c{d}")) == "a{b}c{d}"
    assert Template.parse("a{b}c{d}").fill(["1", "2"]) == "a1c2"
    for wrong in ("", "{}", "a}", "{a", "{a}}", "x" * 257):
        with pytest.raises(MapError):
            Template.parse(wrong)


def test_what_is_not_as_in_the_database() -> None:
    rules = Map.of_columns([ITEMS, ORDERS])
    there = Map.of_columns([Declared("public.items", ("id",), {"id": Kind.TEXT})])
    found = rules.differences(there)
    assert len(found) == 2 and "public.items.id" in found[0] and "sales.orders" in found[1]
    assert rules.differences(rules) == []


def test_kinds() -> None:
    kinds = {"BIGINT": Kind.INTEGER, "VARCHAR(20)": Kind.TEXT, "character varying(3)": Kind.TEXT, "uuid": Kind.UUID}
    assert {name: Kind.of_type(name) for name in kinds} == kinds
    for name in ("NUMERIC", "CHAR(3)", "citext", 'VARCHAR COLLATE "x"', "integer[]", "date"):
        assert Kind.of_type(name) is None
