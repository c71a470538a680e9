"""The shop in many versions, each one change away from the first, and what queries find in them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from shop import SCHEMA, TABLES, changes, names_of_change, rows_of

from thorp_web import Map, recording
from thorp_web.fields import Field

# How many changes are looked at of tables that a query seems not to read.
FAR_CHANGES = 5


class Worlds:
    """A database with a schema for each version."""

    def __init__(self, url: str, rules: Map) -> None:
        self.rules = rules
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE worlds")
        self.connection = psycopg.connect(make_conninfo(url, dbname="worlds"), autocommit=True)
        self.connection.execute(SCHEMA)
        self.names: list[set[str]] = []
        """For each version but the first how its change is called."""
        first = rows_of(self.connection)
        for change in changes():
            schema = f"w{len(self.names)}"
            steps = [f"CREATE SCHEMA {schema}", f"SET search_path = {schema}"]
            for table in TABLES:
                steps += [f"CREATE TABLE {table} (LIKE public.{table} INCLUDING INDEXES)"]
                steps += [f"INSERT INTO {table} SELECT * FROM public.{table}"]
            # All of them are one transaction: a key that is there already leaves nothing.
            with contextlib.suppress(psycopg.errors.UniqueViolation):
                self.connection.execute("; ".join([*steps, change]))
                self.names.append(names_of_change(rules, first, rows_of(self.connection)))
        self.connection.execute("SET search_path = public")

    def find(self, query: str, versions: list[int]) -> list[str | None]:
        """What the query finds in the first version and in these, as texts; one trip for all."""
        asked = f"SELECT string_agg(q::text, E'\n' ORDER BY q::text) FROM ({query}) AS q"
        schemas = ["public", *(f"w{number}" for number in versions)]
        text = "".join(f"SET search_path = {schema}; {asked};\n" for schema in schemas)
        cursor = self.connection.execute(f"{text} SET search_path = public")
        found = []
        while cursor.nextset():
            if cursor.description:
                found.append(cursor.fetchone()[0])
        return found

    def missed(self, query: str, names: list[str]) -> list[set[str]]:
        """The changes that alter what a query finds, and have none of the names that it depends on."""
        unheard = [number for number, change in enumerate(self.names) if not change & set(names)]
        # Changes of tables that it seems not to read at all are many, and alike.
        tables = {name.partition(":")[0].partition(".")[0] for name in names}
        near = [number for number in unheard if self.names[number] & tables]
        far = sorted(set(unheard) - set(near))
        asked = [*near, *far[:: max(1, len(far) // FAR_CHANGES)]]
        first, *others = self.find(query, asked)
        return [self.names[number] for number, found in zip(asked, others, strict=True) if found != first]


def names_read(rules: Map, read: Callable[[], Any]) -> list[str]:
    """The names of what was read."""
    record = recording.begin(rules)
    with recording.recording_to(record):
        read()
    names = recording.end(record, Field("Cache-Groups").is_sayable)
    assert names is not None
    return names
