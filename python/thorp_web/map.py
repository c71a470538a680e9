"""Names of dependencies: from the rows that a query reads, and, for `thorp watch`, from the rows that change.

Both sides use one map, so they cannot disagree. In the file of the watcher it reads:

    others = ["any"]                                   # each row of a table that is not named here

    [tables."public.items"]
    rows = ["any", "items", "items:{id}"]              # each row: every table, this table, this row
    whole = ["*"]                                      # a table that is truncated or altered: everything

A query that reads only rows with `id = 7` depends on `items:7`, another one of the table on `items`, and one that
nobody understands on `any`. Every change of a row changes all three.
"""

from __future__ import annotations

import enum
import functools
import itertools
import tomllib
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from thorp_web.statements import Place, Reading

EVERYTHING = "*"
"""The dependency that every response has, whether it names it or not."""

ANY = "any"
"""In the maps of this package: a change of any row."""

NAME_BYTES_MAX = 256
"""The longest name: the watcher takes the whole table for a row whose name is longer."""

ROWS_PER_READ_MAX = 64
"""A read of more rows is one of the table."""


class Kind(enum.Enum):
    """The types whose values are equal if and only if PostgreSQL writes the same text for them.

    Of others a query with `=` can find a row that has another text: `numeric` has 7 and 7.00, `char(2)` pads, `citext`
    folds. They are in no name of a row.
    """

    INTEGER = "integer"
    TEXT = "text"
    UUID = "uuid"

    @classmethod
    def of_type(cls, name: str) -> Kind | None:
        """The kind of a column, by the type as it is declared. A collation of the column's own leaves none."""
        name = name.lower()
        if name in {"smallint", "integer", "bigint", "smallserial", "serial", "bigserial"}:
            return cls.INTEGER
        if name in {"text", "varchar", "character varying", "uuid"}:
            return cls.UUID if name == "uuid" else cls.TEXT
        base, _, length = name.partition("(")
        if base in {"varchar", "character varying"} and length.endswith(")") and length[:-1].isdigit():
            return cls.TEXT
        return None

    def text(self, value: object) -> str | None:
        """PostgreSQL's text for a value that a query compares the column with; None if that is not certain."""
        match self:
            # Not of subclasses, as drivers have their own ways with a `bool` or an `Enum`.
            case Kind.INTEGER if type(value) is int or _is_sized(value):
                return int.__repr__(value)
            case Kind.TEXT if type(value) is str:
                return value
            case Kind.UUID if isinstance(value, uuid.UUID):
                return str(value)
            case Kind.UUID if type(value) is str:
                try:
                    return str(uuid.UUID(value))
                except ValueError:
                    return None
        return None


def _is_sized(value: object) -> bool:
    """Whether it is an integer with a size, of psycopg's own, as Django gives it."""
    return isinstance(value, int) and type(value).__module__.partition(".")[0] == "psycopg"


@dataclass(frozen=True)
class Template:
    """A name with columns in it: texts and columns in turns, a text first and last."""

    texts: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Reads `item:{id}`."""
        first, *rest = text.split("{")
        texts, columns = [first], []
        for part in rest:
            column, end, after = part.partition("}")
            if not end or not column or "}" in after:
                raise MapError(f'a template has columns as {{column}}; got "{text}"')
            columns.append(column)
            texts.append(after)
        if "}" in first or not 1 <= len(text.replace("{", "").replace("}", "").encode()) <= NAME_BYTES_MAX:
            raise MapError(f'a template is a name of 1 to {NAME_BYTES_MAX} bytes; got "{text}"')
        return cls(tuple(texts), tuple(columns))

    def fill(self, values: Sequence[str]) -> str:
        """The name with these values."""
        pairs = itertools.zip_longest(self.texts, values, fillvalue="")
        return "".join(itertools.chain.from_iterable(pairs))

    def __str__(self) -> str:
        return self.fill([f"{{{column}}}" for column in self.columns])


class MapError(ValueError):
    """What is wrong with a map."""


@dataclass(frozen=True)
class Table:
    """The rules of one table."""

    rows: tuple[Template, ...]
    whole: tuple[str, ...] = (EVERYTHING,)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """The kinds of the columns that may be in names."""
    key: tuple[str, ...] = ()
    """The primary key: the columns whose old values the log has."""

    @property
    def any_row(self) -> tuple[str, ...]:
        """The names that every changed row has."""
        return tuple(template.texts[0] for template in self.rows if not template.columns)

    def names_of_rows(self, known: Mapping[str, Sequence[object]]) -> list[str] | None:
        """The names of the rows whose columns have these values; None if the rows are not named so closely.

        Every row that a query with such a condition can see, now or later, has one of them.
        """
        best: list[str] | None = None
        for template in self.rows:
            if not template.columns or not all(column in known for column in template.columns):
                continue
            texts = [self._texts(column, known[column]) for column in template.columns]
            count = 1
            for values in texts:
                count *= len(values)
            is_certain = not any(None in values for values in texts)
            if is_certain and count <= ROWS_PER_READ_MAX and (best is None or count < len(best)):
                best = [template.fill(values) for values in itertools.product(*texts)]  # type: ignore[arg-type]
        return best

    def _texts(self, column: str, values: Sequence[object]) -> list[str | None]:
        kind = self.kinds.get(column)
        return [kind.text(value) if kind else None for value in values]


@dataclass(frozen=True)
class Map:
    """The rules of a database."""

    tables: Mapping[str, Table]
    """By full name, `schema.table`."""
    others: tuple[str, ...] = (ANY,)
    """The names of each row of another table."""
    views: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The tables that a view reads, with their schema."""

    @classmethod
    def of_columns(cls, tables: Iterable[Declared], columns: Iterable[str] = ()) -> Map:
        """The map that this package makes: of each row the table, its key, and the columns that are asked for.

        `columns` are `table.column`, with the schema in front if it is not `public`. A response that looks for
        `items.category = 5` depends on `items.category:5` then, and not on all items.
        """
        wanted = set(columns)
        rules = {}
        for table in tables:
            base = table.name.removeprefix("public.")
            if any(brace in base for brace in "{}"):
                continue
            rows = [ANY, base]
            if table.key and all(column in table.kinds for column in table.key):
                rows.append(f"{base}:" + ",".join(f"{{{column}}}" for column in table.key))
            for column in sorted(table.kinds):
                if f"{base}.{column}" in wanted:
                    rows.append(f"{base}.{column}:{{{column}}}")
                    wanted.discard(f"{base}.{column}")
            rules[table.name] = Table(tuple(map(Template.parse, rows)), kinds=dict(table.kinds), key=table.key)
        if wanted:
            raise MapError(f"no such column, or of a type that has no names: {', '.join(sorted(wanted))}")
        return cls(rules)

    def with_rules(self, text: str) -> Map:
        """The rules of a watcher's file, with what is known here of the columns.

        An application that reads the file that the watcher has names nothing that the watcher does not.
        """
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise MapError(str(error)) from error
        tables = {}
        for name, rules in found.get("tables", {}).items():
            rows = tuple(Template.parse(row) for row in rules["rows"])
            declared = self.tables.get(name, Table(rows))
            tables[name] = replace(declared, rows=rows, whole=tuple(rules.get("whole", [EVERYTHING])))
        return replace(self, tables=tables, others=tuple(found.get("others", [EVERYTHING])))

    def with_views(self, views: Mapping[str, Sequence[str]]) -> Map:
        """Says which tables views read: `{"public.cheap": ["public.items"]}`."""
        tables = {name: table for name, table in self.tables.items() if name not in views}
        unknown = {table for read in views.values() for table in read} - tables.keys()
        if unknown:
            raise MapError(f"a view reads tables that the map does not have: {', '.join(sorted(unknown))}")
        return replace(self, tables=tables, views={**self.views, **views})

    def toml(self) -> str:
        """The file for `thorp watch --map`."""
        lines = [f"others = {_list(self.others)}"]
        for name, table in sorted(self.tables.items()):
            lines += ["", f"[tables.{_text(name)}]"]
            if any(column not in table.key for template in table.rows for column in template.columns):
                schema, relation = name.split(".")
                lines.append(f'# Wants old values: ALTER TABLE "{schema}"."{relation}" REPLICA IDENTITY FULL')
            lines += [f"rows = {_list(map(str, table.rows))}", f"whole = {_list(table.whole)}"]
        return "\n".join(lines) + "\n"

    def names_of(self, reading: Reading, parameters: Sequence[object]) -> Names | None:
        """The names of what a statement reads of a table, with these parameters; None if it has none."""
        found = Names()
        for table in self._resolve(reading.schema, reading.name):
            of_table = self._of_tables[table]
            if table is None:
                closely = None
            else:
                found.of_tables.update(dict.fromkeys(self.tables[table].whole))
                closely = self.tables[table].names_of_rows(self._known(reading, table, parameters))
            if closely is not None:
                found.of_rows.setdefault(of_table, {}).update(dict.fromkeys(closely))
            elif of_table is None:
                return None
            else:
                found.of_tables[of_table] = None
        return found

    @functools.cached_property
    def _of_tables(self) -> dict[str | None, str | None]:
        """For each table, and for others, a name that each changed row has; None if there is none."""
        rules: dict[str | None, tuple[str, ...]] = {name: table.any_row for name, table in self.tables.items()}
        rules[None] = self.others
        # The fewer tables have a name, the more particular it is.
        uses = Counter(name for names in rules.values() for name in names)
        uses[EVERYTHING] = len(rules) + 1
        return {table: min(names, key=lambda name: uses[name], default=None) for table, names in rules.items()}

    def _known(self, reading: Reading, table: str, parameters: Sequence[object]) -> dict[str, list[object]]:
        """The values that columns have in the rows that matter."""
        known = {}
        for condition in reading.conditions:
            kind = self.tables[table].kinds.get(condition.column)
            values = condition.known(parameters)
            if kind and values is not None and all(self._is_of(kind, place) for place in condition.via):
                known[condition.column] = values
        return known

    def _is_of(self, kind: Kind, place: Place) -> bool:
        """Whether a column is of that kind, whichever table is meant."""
        tables = self._resolve(place.schema, place.table)
        return all(table is not None and self.tables[table].kinds.get(place.column) is kind for table in tables)

    def _resolve(self, schema: str | None, name: str) -> list[str | None]:
        """The tables that a statement may mean; None stands for those without rules.

        A name without a schema is every table's of that name, as nobody here knows the search path.
        """
        found: list[str | None] = []
        for candidate in [f"{schema}.{name}"] if schema else self._by_name.get(name, []):
            found += self.views.get(candidate, [candidate] if candidate in self.tables else [])
        return found or [None]

    @functools.cached_property
    def _by_name(self) -> dict[str, list[str]]:
        """The full names of tables and views, by those without a schema."""
        found: dict[str, list[str]] = {}
        for full in itertools.chain(self.tables, self.views):
            found.setdefault(full.partition(".")[2], []).append(full)
        return found

    @functools.cached_property
    def everything(self) -> tuple[str, ...] | None:
        """Names of which every change of a row has one; None if there are none."""
        rules = [set(table.any_row) for table in self.tables.values()] + [set(self.others)]
        # A change of `*` is one of every response, also of those that do not say so.
        rules = [names for names in rules if EVERYTHING not in names]
        if not rules:
            return (EVERYTHING,)
        common = set.intersection(*rules)
        if common:
            return (min(common),)
        if all(rules):
            return tuple(sorted({min(names) for names in rules}))
        return None

    def differences(self, actual: Map) -> list[str]:
        """What is not as in the database, by a map that was made of its catalog."""
        found = []
        for name, table in sorted(self.tables.items()):
            there = actual.tables.get(name)
            if there is None:
                found.append(f"{name} is no table whose every change is in the log: leave it out of the map")
                continue
            columns = {column for template in table.rows for column in template.columns}
            for column in sorted(columns):
                kinds = (table.kinds.get(column), there.kinds.get(column))
                if kinds[1] is None or kinds[0] not in (None, kinds[1]):
                    found.append(f"{name}.{column} is of a type, or has a collation, that has no names of rows")
        return found


@dataclass
class Names:
    """Names of dependencies, in order; of rows by the name of their table, which stands for any number of them."""

    of_tables: dict[str, None] = field(default_factory=dict)
    of_rows: dict[str | None, dict[str, None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Declared:
    """A table as a model or a catalog declares it."""

    name: str
    key: tuple[str, ...]
    kinds: Mapping[str, Kind]


def _list(texts: Iterable[str]) -> str:
    return "[" + ", ".join(map(_text, texts)) + "]"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'
