"""Random queries over the shop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from shop import TABLES

KINDS = {
    "id": "int", "category": "int", "item_id": "int", "stars": "int", "a": "int",
    "price": "numeric", "name": "text", "author": "text", "b": "text", "about": "text", "tag": "char",
}  # fmt: skip

# Columns that are in names of rows.
NAMED = {"id", "category", "item_id", "author", "a", "b"}

INTEGERS = st.integers(0, 5)
TEXTS = st.sampled_from(["a", "b", "c", "x", "A", "a ", "é"])


@dataclass
class Query:
    """A statement in the making."""

    parameters: list[Any] = field(default_factory=list)
    aliases: int = 0

    def alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"


Columns = list[tuple[str, str]]
"""The columns in sight, as they are written, with their kinds."""


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, list[Any]]:
    """A statement in psycopg's way, with its parameters."""
    query = Query()
    text = draw(selects(query, [], 2))
    if draw(st.integers(0, 9)) == 0:
        common = draw(st.sampled_from(["items", "comments", "extra"]))
        text = f"WITH {common} AS ({text}) SELECT * FROM {common}"
    elif draw(st.integers(0, 9)) == 0:
        one = "SELECT id FROM items WHERE category = 1"
        text = (
            f"{one} {draw(st.sampled_from(['UNION', 'EXCEPT', 'INTERSECT']))} SELECT count(*)::int FROM ({text}) AS u"
        )
    return text, query.parameters


@st.composite
def selects(draw: st.DrawFn, query: Query, outer: Columns, depth: int, only: str | None = None) -> str:
    """`SELECT … FROM … WHERE …`; `only` is the kind of its only column."""
    columns: Columns = []
    text = ""
    for number in range(draw(st.sampled_from([1, 1, 1, 2, 2, 2, 3]))):
        alias = query.alias()
        if depth and draw(st.integers(0, 7)) == 0:
            source, added = f"({draw(selects(query, [], depth - 1, 'int'))}) AS {alias}", [(f"{alias}.v", "int")]
        else:
            table = draw(st.sampled_from(["items", "comments", "pairs"]))
            source, added = f"{table} AS {alias}", [(f"{alias}.{name}", KINDS[name]) for name in TABLES[table]]
        mine = columns + added
        if number == 0:
            text = source
        else:
            how = draw(
                st.sampled_from(["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ","])
            )
            text += f" {how} {source}" if how != "," else f", {source}"
            if how.endswith("JOIN") and how != "CROSS JOIN":
                text += f" ON {draw(conditions(query, mine, outer, 0))}"
        columns = mine
    projection = f"{only_column(draw, columns, only)} AS v" if only else draw(projections(columns))
    text = f"SELECT {projection} FROM {text}"
    named = [at for at in columns if at[0].partition(".")[2] in NAMED]
    wheres = [draw(conditions(query, columns, outer, depth))] if draw(st.booleans()) else []
    # Most queries of applications look for a value.
    for _ in range(draw(st.integers(0, 2)) if named else 0):
        column, kind = draw(st.sampled_from(named))
        wheres.insert(0, f"{column} = {draw(values(query, kind))}")
    return f"{text} WHERE {' AND '.join(wheres)}" if wheres else text


def only_column(draw: st.DrawFn, columns: Columns, kind: str) -> str:
    fitting = [name for name, its in columns if its == kind] or ["1"]
    return draw(st.sampled_from(fitting))


@st.composite
def projections(draw: st.DrawFn, columns: Columns) -> str:
    names = [name for name, _ in columns]
    numbers = [name for name, kind in columns if kind in ("int", "numeric")] or ["1"]
    some = ", ".join(draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)))
    total = f"count(*), sum({draw(st.sampled_from(numbers))})"
    return draw(st.sampled_from(["*", "*", some, f"DISTINCT {some}", total]))


@st.composite
def conditions(draw: st.DrawFn, query: Query, columns: Columns, outer: Columns, depth: int) -> str:
    """A condition over the columns, and sometimes those of a query around."""
    form = draw(st.sampled_from(["one", "one", "one", "and", "and", "or", "not"]))
    if form == "one":
        return draw(comparisons(query, columns, outer, depth))
    if form == "not":
        return f"NOT ({draw(comparisons(query, columns, outer, depth))})"
    parts = [draw(comparisons(query, columns, outer, depth)) for _ in range(2)]
    if draw(st.booleans()):
        parts[0] = f"({draw(comparisons(query, columns, outer, 0))} {'OR' if form == 'and' else 'AND'} {parts[0]})"
    return f"({f' {form.upper()} '.join(parts)})"


@st.composite
def comparisons(draw: st.DrawFn, query: Query, columns: Columns, outer: Columns, depth: int) -> str:
    seen = columns + outer
    named = [at for at in seen if at[0].partition(".")[2] in NAMED]
    column, kind = draw(st.sampled_from(named if named and draw(st.booleans()) else seen))
    form = draw(
        st.sampled_from(["=", "=", "=", "=", "columns", "columns", "in", "any", "null", "<", "coalesce", "sub"])
    )
    if form == "columns":
        alike = [name for name, its in seen if {its, kind} <= {"int", "numeric"} or {its, kind} <= TEXTUAL]
        other = draw(st.sampled_from(alike))
        return f"{column} = {other}"
    if form == "in":
        return f"{column} IN ({', '.join(draw(values(query, kind)) for _ in range(draw(st.integers(1, 3))))})"
    if form == "any" and kind in ("int", "text"):
        listed = draw(st.lists(INTEGERS if kind == "int" else TEXTS, max_size=3))
        query.parameters.append(listed)
        return f"{column} = ANY(%s{'::int[]' if kind == 'int' else '::text[]'})"
    if form == "null":
        return f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if form == "<":
        return f"{column} < {draw(values(query, kind))}"
    if form == "coalesce":
        return f"coalesce({column}, {draw(values(query, kind))}) = {draw(values(query, kind))}"
    if form == "sub" and depth:
        if kind == "int" and draw(st.booleans()):
            return f"{column} IN ({draw(selects(query, columns, depth - 1, 'int'))})"
        return f"EXISTS ({draw(selects(query, columns, depth - 1))})"
    sides = [column, draw(values(query, kind))]
    return " = ".join(sides if draw(st.booleans()) else sides[::-1])


TEXTUAL = {"text", "char"}


@st.composite
def values(draw: st.DrawFn, query: Query, kind: str) -> str:
    """A value in the statement, or a parameter."""
    value: Any = draw(INTEGERS if kind in ("int", "numeric") else TEXTS)
    if draw(st.integers(0, 2)) == 0:
        return str(value) if isinstance(value, int) else f"'{value}'"
    if draw(st.integers(0, 9)) == 0:
        value = None
    query.parameters.append(value)
    cast = {"int": "::int", "numeric": "::numeric", "text": "::text", "char": "::text"}[kind]
    return f"%s{cast}"
