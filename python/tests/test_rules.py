"""Each rule by which a condition narrows is needed: without it a change is missed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from worlds import Worlds, names_read

from thorp_web import recording, statements
from thorp_web.map import Map


@pytest.fixture(autouse=True)
def _parsed_anew() -> Iterator[None]:
    statements._parsed.cache_clear()
    yield
    statements._parsed.cache_clear()


def missed(worlds: Worlds, query: str) -> bool:
    names = names_read(worlds.rules, lambda: recording.read(query, ()))
    return bool(worlds.missed(query, names))


def check(worlds: Worlds, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, broken: Any, query: str) -> None:
    assert not missed(worlds, query)
    monkeypatch.setattr(place, name, broken)
    statements._parsed.cache_clear()
    assert missed(worlds, query), "nobody notices that the rule is missing"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM items AS i LEFT JOIN comments AS c ON i.id = 1 AND c.item_id = i.id",
        "SELECT * FROM items AS i RIGHT JOIN comments AS c ON c.id = 1",
        "SELECT * FROM items AS i FULL JOIN comments AS c ON c.id = i.id AND i.id = 1",
    ],
)
def test_outer_joins_keep_rows(worlds: Worlds, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    check(worlds, monkeypatch, statements, "_narrowed_by", lambda join: "", query)


def test_each_branch_of_a_disjunction_has_the_column(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT * FROM items AS i WHERE i.id = 1 OR i.name = 'a'"
    some = statements._Scope._some
    first = lambda self, part: some(self, next(statements._parts(part, statements.exp.Or)))  # noqa: E731
    check(worlds, monkeypatch, statements._Scope, "_some", first, query)


def test_an_equality_carries_over_between_alike_columns_alone(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT * FROM items AS i JOIN comments AS c ON c.author = i.tag WHERE i.tag = 'x  '"
    check(worlds, monkeypatch, Map, "_is_of", lambda *_: True, query)
