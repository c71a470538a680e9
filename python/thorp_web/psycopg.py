"""Records what psycopg 3 reads, and makes a map of a database's catalog.

`record(connection)` has every cursor of a connection record from then on: as a pool's `configure`, or after `connect`.
A connection that nobody recorded is not known here, so all of an application's have to be.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from thorp_web import recording
from thorp_web.map import Declared, Kind, Map
from thorp_web.parameters import from_percent, many_from_percent

if TYPE_CHECKING:
    from psycopg.abc import Params, Query

    AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


def record(connection: AnyConnection) -> None:
    """Has the connection's cursors record what they read."""
    connection.cursor_factory = recording_cursor(connection.cursor_factory)  # type: ignore[arg-type]
    connection.server_cursor_factory = recording_cursor(connection.server_cursor_factory)  # type: ignore[arg-type]


async def record_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """The same, as an asynchronous pool's `configure` wants it."""
    record(connection)


@functools.cache
def recording_cursor(cursor: type[Any]) -> type[Any]:
    """A class of cursors, recording what they read; for `cursor_factory`."""
    if issubclass(cursor, _Recording):
        return cursor
    is_async = issubclass(cursor, (psycopg.AsyncCursor, psycopg.AsyncServerCursor, psycopg.AsyncRawCursor))
    return type(f"Recording{cursor.__name__}", (_Asynchronous if is_async else _Synchronous, cursor), {})


class _Recording:
    """A cursor that records."""

    def _record(self, query: Query, parameters: Params | None) -> None:
        text = self._text(query)
        # A raw cursor's parameters are PostgreSQL's own, and stand as `$1` already.
        is_raw = isinstance(self, (psycopg.RawCursor, psycopg.AsyncRawCursor))
        found = (text, parameters or ()) if is_raw and text is not None else None
        if text is not None and not is_raw:
            found = from_percent(text, parameters)
        self._say(found)

    def _record_many(self, query: Query, given: Iterable[Params]) -> Iterable[Params]:
        text = self._text(query)
        if text is not None:
            text, given = many_from_percent(text, given)
        self._say((text, ()) if text is not None else None)
        return given

    def _say(self, found: tuple[str, Any] | None) -> None:
        if found is None:
            recording.read_everything("a template, or parameters that do not fit their statement")
        else:
            recording.read(*found)

    def _text(self, query: Query) -> str | None:
        """The statement; a template of Python 3.14 is none that is understood."""
        if isinstance(query, sql.Composable):
            return query.as_string(self)  # type: ignore[arg-type]
        if isinstance(query, bytes):
            return query.decode("utf-8", "replace")
        return query if isinstance(query, str) else None


class _Synchronous(_Recording):
    def execute(self, query: Query, params: Params | None = None, *rest: Any, **options: Any) -> Any:
        self._record(query, params)
        return super().execute(query, params, *rest, **options)  # type: ignore[misc]

    def executemany(self, query: Query, params_seq: Iterable[Params], *rest: Any, **options: Any) -> Any:
        given = self._record_many(query, params_seq)
        return super().executemany(query, given, *rest, **options)  # type: ignore[misc]

    def stream(self, query: Query, params: Params | None = None, *rest: Any, **options: Any) -> Iterator[Any]:
        self._record(query, params)
        return super().stream(query, params, *rest, **options)  # type: ignore[misc, no-any-return]

    def copy(self, statement: Query, params: Params | None = None, *rest: Any, **options: Any) -> Any:
        self._record(statement, params)
        return super().copy(statement, params, *rest, **options)  # type: ignore[misc]


class _Asynchronous(_Recording):
    async def execute(self, query: Query, params: Params | None = None, *rest: Any, **options: Any) -> Any:
        self._record(query, params)
        return await super().execute(query, params, *rest, **options)  # type: ignore[misc]

    async def executemany(self, query: Query, params_seq: Iterable[Params], *rest: Any, **options: Any) -> Any:
        given = self._record_many(query, params_seq)
        return await super().executemany(query, given, *rest, **options)  # type: ignore[misc]

    def stream(self, query: Query, params: Params | None = None, *rest: Any, **options: Any) -> AsyncIterator[Any]:
        self._record(query, params)
        return super().stream(query, params, *rest, **options)  # type: ignore[misc, no-any-return]

    def copy(self, statement: Query, params: Params | None = None, *rest: Any, **options: Any) -> Any:
        self._record(statement, params)
        return super().copy(statement, params, *rest, **options)  # type: ignore[misc]


# Tables whose every change of a row is in the log under their own name: no partitions, nor what others inherit from.
# The changes of a partitioned one are, if its publication says so; the one that `thorp watch --setup` makes does.
_CATALOG = """
SELECT n.nspname || '.' || c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
       coalesce(l.collisdeterministic, true), array_position(k.conkey, a.attnum)
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_collation l ON l.oid = a.attcollation
  LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p'
 WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
   AND CASE c.relkind WHEN 'r' THEN NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid)
                      ELSE NOT EXISTS (SELECT FROM pg_publication p WHERE NOT p.pubviaroot) END
   AND n.nspname NOT IN ('pg_catalog', 'information_schema')
   AND strpos(n.nspname || c.relname, '.') = 0
 ORDER BY 1, 5, a.attnum
"""


def map_of(connection: psycopg.Connection[Any], columns: Iterable[str] = ()) -> Map:
    """The map of a database, by its catalog."""
    tables: dict[str, Declared] = {}
    with recording.unrecorded():
        rows = psycopg.Cursor(connection).execute(_CATALOG).fetchall()
    for table, column, type_, is_deterministic, place in rows:
        declared = tables.get(table, Declared(table, (), {}))
        kind = Kind.of_type(type_) if is_deterministic else None
        kinds = {**declared.kinds, column: kind} if kind else declared.kinds
        key = (*declared.key, column) if place is not None else declared.key
        tables[table] = Declared(table, key, kinds)
    return Map.of_columns(tables.values(), columns)
