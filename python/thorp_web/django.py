"""Records what Django's database connections read, and makes a map of its models.

A statement is looked at as it goes to the driver, so managers, raw queries and cursors are no special cases; `copy` and
the driver's own connection are not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.apps import apps
from django.db import connections
from django.db.backends.signals import connection_created

from thorp_web import recording
from thorp_web.map import Declared, Kind, Map
from thorp_web.parameters import from_percent, many_from_percent

_watched: set[str] = set()


def record(*aliases: str) -> None:
    """Records what is read from the watched databases, `default` if none is named. What is read from others is in no
    response that is stored."""
    _watched.update(aliases or ("default",))
    connection_created.connect(_connected, dispatch_uid="thorp_web")
    for connection in connections.all(initialized_only=True):
        _connected(connection=connection)


def _connected(connection: Any, **_: Any) -> None:
    if _execute not in connection.execute_wrappers:
        connection.execute_wrappers.append(_execute)


def _execute(execute: Callable[..., Any], text: Any, given: Any, many: bool, context: dict[str, Any]) -> Any:
    connection = context["connection"]
    if connection.alias not in _watched or connection.vendor != "postgresql":
        recording.refuse("another connection's database")
        return execute(text, given, many, context)
    found: tuple[str, Sequence[object]] | None = None
    # Statements of `psycopg.sql` are made of parts, which Django does not look at.
    if isinstance(text, str) and many:
        numbered, given = many_from_percent(text, given)
        found = (numbered, ()) if numbered is not None else None
    elif isinstance(text, str):
        found = from_percent(text, given)
    if found is None:
        recording.read_everything("parameters that do not fit their statement")
    else:
        recording.read(*found)
    return execute(text, given, many, context)


def map_of(columns: Iterable[str] = (), *, alias: str = "default") -> Map:
    """The map of the models that Django manages; the tables of others may be views."""
    connection = connections[alias]
    tables = []
    for model in apps.get_models(include_auto_created=True):
        options = model._meta
        if not options.managed or options.proxy or '"' in options.db_table:
            continue
        kinds: dict[str, Kind] = {}
        for field in options.local_concrete_fields:
            collation = getattr(field.target_field if field.is_relation else field, "db_collation", None)
            kind = None if collation else Kind.of_type(field.db_type(connection) or "")
            if kind and field.column:
                kinds[field.column] = kind
        fields = getattr(options, "pk_fields", [options.pk])
        key = tuple(field.column for field in fields if field is not None and field.column)
        tables.append(Declared(f"public.{options.db_table}", key, kinds))
    return Map.of_columns(tables, columns)
