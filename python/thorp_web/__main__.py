"""`python -m thorp_web map …` prints the map for `thorp watch`, and `check` what in it is not as in a database."""

from __future__ import annotations

import argparse
import importlib
import sys

from thorp_web.map import Map, MapError

USAGE = """\
sources:
  sqlalchemy shop.models:Base.metadata    the tables of some metadata
  django shop.settings                    the models that Django manages
  postgres postgresql://host/shop         the tables of a database, by its catalog
"""


def main(arguments: list[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="python -m thorp_web", epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    printing = commands.add_parser("map", help="print the map for `thorp watch --map`")
    checking = commands.add_parser("check", help="say what of the map is not as in a database")
    for command in (printing, checking):
        command.add_argument("kind", choices=["sqlalchemy", "django", "postgres"], help="where tables are declared")
        command.add_argument("place", help="metadata, settings or a database")
        command.add_argument(
            "--column", action="append", default=[], help="a name of their own for rows with equal ones"
        )
    checking.add_argument("--database", required=True, help="the database")
    options = parser.parse_args(arguments)
    try:
        rules = _map_of(options.kind, options.place, options.column)
        if options.command == "map":
            print(rules.toml(), end="")
            return 0
        found = rules.differences(_map_of("postgres", options.database, []))
    except (MapError, ImportError, AttributeError) as error:
        print(f"thorp_web: {error}", file=sys.stderr)
        return 2
    print("\n".join(found) or "the map is as the database")
    return 1 if found else 0


def _map_of(kind: str, place: str, columns: list[str]) -> Map:
    sys.path.insert(0, "")
    if kind == "sqlalchemy":
        from thorp_web.sqlalchemy import map_of as of_metadata

        module, _, path = place.partition(":")
        metadata = importlib.import_module(module)
        for name in path.split("."):
            metadata = getattr(metadata, name)
        return of_metadata(metadata, columns)  # type: ignore[arg-type]
    if kind == "django":
        import os

        import django

        from thorp_web.django import map_of as of_models

        os.environ["DJANGO_SETTINGS_MODULE"] = place
        django.setup()
        return of_models(columns)
    import psycopg

    from thorp_web.psycopg import map_of as of_catalog

    with psycopg.connect(place) as connection:
        return of_catalog(connection, columns)


if __name__ == "__main__":
    sys.exit(main())
