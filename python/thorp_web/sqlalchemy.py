"""Records what SQLAlchemy 2 reads, Core and ORM, and makes a map of its metadata.

A statement is looked at as it goes to the driver, so text, hybrid properties and loaders of relationships are no
special cases. What a session has in its identity map is not read again: a session belongs to one request.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, MetaData, event
from sqlalchemy.dialects import postgresql

from thorp_web import recording
from thorp_web.map import Declared, Kind, Map
from thorp_web.parameters import from_percent

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine

# An engine that was made of another one, with options of its own, has the same dialect.
_watched: weakref.WeakSet[Any] = weakref.WeakSet()


def record(engine: Engine | AsyncEngine) -> None:
    """Records what is read from the watched database. No response is stored that reads by another engine."""
    _watched.add(getattr(engine, "sync_engine", engine).dialect)
    if not event.contains(Engine, "before_cursor_execute", _before):
        event.listen(Engine, "before_cursor_execute", _before)


def _before(connection: Connection, _cursor: Any, text: str, given: Any, _context: Any, many: bool) -> None:
    dialect = connection.dialect
    if dialect not in _watched or dialect.name != "postgresql":
        recording.refuse("another engine's database")
        return
    found = _numbered(text, given[0] if many and given else given, dialect.paramstyle)
    if found is None:
        recording.read_everything("parameters that do not fit their statement")
    else:
        # Of many parameters no value is known.
        recording.read(found[0], () if many else found[1])


def _numbered(text: str, parameters: Any, style: str) -> tuple[str, Sequence[object]] | None:
    if style == "numeric_dollar" and not isinstance(parameters, Mapping):
        return text, parameters or ()
    if style in ("pyformat", "format"):
        return from_percent(text, parameters)
    return None


def map_of(metadata: MetaData, columns: Iterable[str] = ()) -> Map:
    """The map of the tables of some metadata. Tables that are views there have to be named by `Map.with_views`."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    tables = []
    for table in metadata.tables.values():
        types = {column.name: column.type.compile(dialect=dialect) for column in table.columns}
        kinds = {name: kind for name, type_ in types.items() if (kind := Kind.of_type(type_))}
        key = tuple(column.name for column in table.primary_key.columns)
        tables.append(Declared(f"{table.schema or metadata.schema or 'public'}.{table.name}", key, kinds))
    return Map.of_columns(tables, columns)
