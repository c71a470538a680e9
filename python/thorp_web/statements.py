"""What a statement reads, from its text: tables, and the values that columns must have in the rows that matter.

It errs on one side. Every name in the place of a table counts as read, wherever it stands; a condition narrows that to
some rows only where this file knows the form; and a statement with a function that may read more, or in a form that the
parser does not know, reads everything.

A condition `items.id = 7` narrows a table `items` of a `FROM` to the rows with `id = 7` if no row of the result can
have another `items.id`. Then other rows of the table do not matter, now or later: they are in no combination that
passes, and none that passes is made or unmade by them. So these narrow:

1. a condition of `WHERE`, or of an inner join, that is a column's equality with a value, also `IN` and `= ANY`, or a
   conjunction with one, or a disjunction of such;
2. the same of a left join, for its right table alone: the rows of its left side stay whatever the condition says;
3. an equality of two columns, one of which is narrowed: of `WHERE` and of inner joins in both directions, of a left
   join towards its right table.

No condition narrows across subqueries, and a left join's row that is missing has no column with a value.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

try:
    import sqlglot
    from sqlglot import exp
    from sqlglot.tokens import Tokenizer, TokenType  # type: ignore[attr-defined]
except ImportError:  # Then every statement reads everything.
    sqlglot = None  # type: ignore[assignment]

log = logging.getLogger("thorp_web")

STATEMENT_CHARS_MAX = 32 * 1024
"""A longer statement is not parsed, nor kept."""

STATEMENTS_CACHED = 1024
"""Statements are parsed once: applications have few, with many parameters."""


@dataclass(frozen=True)
class Parameter:
    """A value that comes with the statement, counted from 0."""

    index: int
    is_list: bool = False


@dataclass(frozen=True)
class Constant:
    """A value that stands in the statement."""

    value: object


Value = Parameter | Constant


@dataclass(frozen=True)
class Place:
    """A column of a table, as a statement names them."""

    schema: str | None
    table: str
    column: str


@dataclass(frozen=True)
class Condition:
    """A column has one of these values in each row that matters."""

    column: str
    values: tuple[Value, ...]
    via: tuple[Place, ...] = ()
    """Columns that it is equal to, the first of which the statement compares with the values. It holds only if equality
    is the same for all of them: `citext` finds `abc` for `ABC`, and a text that is equal to what it found is not."""

    def known(self, parameters: Sequence[object]) -> list[object] | None:
        """The values, with these parameters; None if one is missing."""
        found: list[object] = []
        for value in self.values:
            if isinstance(value, Constant):
                found.append(value.value)
            elif value.index >= len(parameters):
                return None
            elif value.is_list:
                given = parameters[value.index]
                if not isinstance(given, list):
                    return None
                found += given
            else:
                found.append(parameters[value.index])
        return found


@dataclass(frozen=True)
class Reading:
    """Rows of a table: those for which the conditions hold."""

    schema: str | None
    name: str
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Statement:
    """What a statement does."""

    readings: tuple[Reading, ...] = ()
    reads_everything: bool = False
    writes: bool = False


NOTHING = Statement()
UNKNOWN = Statement(reads_everything=True)
WRITE = Statement(writes=True)

# The first words of statements that read no rows and change none.
_SILENT = frozenset(
    """ABORT BEGIN CLOSE COMMIT DEALLOCATE DISCARD END LISTEN RELEASE RESET ROLLBACK SAVEPOINT SET SHOW START
    UNLISTEN""".split()
)

# The first words of those that read, of which the second are not looked into. Of others nobody knows.
_QUERIES = frozenset("SELECT WITH VALUES TABLE (".split())
_OTHER_READING = frozenset("FETCH MOVE DECLARE".split())

# Functions of PostgreSQL that know their arguments, their session and the time. One of an application's own may read
# tables.
_FUNCTIONS = frozenset(
    """abs age any_value array_agg array_append array_cat array_length array_position array_prepend array_remove
    array_to_json array_to_string avg bit_and bit_length bit_or bool_and bool_or btrim cardinality ceil ceiling
    char_length character_length chr coalesce concat concat_ws count cume_dist current_database current_schema
    current_setting date_bin date_part date_trunc decode degrees dense_rank div encode every exp extract first_value
    floor format gen_random_uuid generate_series greatest initcap json_agg json_array_elements
    json_array_elements_text json_array_length json_build_array json_build_object json_each json_each_text
    json_object_agg json_object_keys json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text
    jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_object_agg
    jsonb_object_keys jsonb_set jsonb_strip_nulls jsonb_typeof lag last_value lead least left length ln log lower lpad
    ltrim make_date make_interval make_time make_timestamp max md5 min mod mode now nth_value ntile nullif
    num_nonnulls num_nulls octet_length overlay percent_rank percentile_cont percentile_disc pg_typeof
    phraseto_tsquery pi plainto_tsquery position power radians random range_agg rank regexp_match regexp_matches
    regexp_replace regexp_split_to_array repeat replace reverse right round row_number row_to_json rpad rtrim
    set_config sign split_part sqrt starts_with statement_timestamp stddev stddev_pop stddev_samp string_agg
    string_to_array strpos substr substring sum to_char to_date to_json to_jsonb to_number to_timestamp to_tsquery
    to_tsvector transaction_timestamp translate trim trunc ts_headline ts_rank ts_rank_cd unnest upper var_pop
    var_samp variance version websearch_to_tsquery width_bucket
    """.split()
)

# Other words that a parenthesis may follow: they call nothing.
_WORDS = frozenset(
    """all and any array as between bigint by case cast char character cross distinct else end except exists filter
    for from full group having in inner integer intersect interval is join lateral left like ilike limit materialized
    not numeric decimal of offset on or order outer over partition recursive returning right row rows select sets cube
    rollup grouping similar some then time timestamp timestamptz timetz to union using values varchar varying when
    where window with within bit date double precision float int smallint text uuid json jsonb boolean bool""".split()
)


def statement(text: str) -> Statement:
    """What a statement does, with its parameters as `$1`, `$2`."""
    return _parsed(text) if len(text) <= STATEMENT_CHARS_MAX else _unknown(text)


@functools.lru_cache(maxsize=STATEMENTS_CACHED)
def _parsed(text: str) -> Statement:
    word = _first_word(text)
    # An empty statement is how pools ask whether a connection lives.
    is_empty = _end_of_space(text.rstrip("; \n")) == len(text.rstrip("; \n"))
    if is_empty or (word in _SILENT and not _has_several(text)):
        return NOTHING
    if sqlglot is None or word not in _QUERIES:
        return _unknown(text)
    try:
        return _understood(text) or _unknown(text)
    # The parser and its trees are another's: whatever it says against a statement, the application gets its rows.
    except Exception:
        log.debug("a statement is not understood", exc_info=True)
        return _unknown(text)


def _understood(text: str) -> Statement | None:
    """What a query does; None if it has a part that is not understood."""
    if not _calls_known_functions(text):
        return None
    trees = [tree for tree in sqlglot.parse(text, dialect="postgres") if tree is not None]
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        return None
    if trees[0].find(exp.DML, exp.DDL, exp.Merge, exp.Into, exp.Command) is not None:
        return WRITE
    return Statement(tuple(dict.fromkeys(_readings(trees[0]))))


def _unknown(text: str) -> Statement:
    """A statement that is not understood reads everything, and writes if it may."""
    is_query = _first_word(text) in _QUERIES | _OTHER_READING and not _has_several(text)
    return UNKNOWN if is_query and not _CHANGES.search(text) else WRITE


_CHANGES = re.compile(r"\b(?:insert|update|delete|merge|into)\b", re.IGNORECASE)


def _has_several(text: str) -> bool:
    return ";" in text.rstrip().rstrip(";")


_BEFORE = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*(?:[^*/]|\*(?!/)|/(?!\*))*\*/)*")


def _first_word(text: str) -> str:
    found = re.compile(r"[A-Za-z]+|\(").match(text, _end_of_space(text))
    return found[0].upper() if found else ""


def _end_of_space(text: str) -> int:
    """Where a statement begins, behind spaces and comments."""
    found = _BEFORE.match(text)
    return found.end() if found else 0


def _calls_known_functions(text: str) -> bool:
    """Whether each word before a parenthesis is a known one.

    The parser takes functions of other databases for PostgreSQL's, and drops the quotes of their names; so this looks
    at the words themselves.
    """
    tokens = Tokenizer(dialect="postgres").tokenize(text)
    for schema, before, name, after in zip([None, None, *tokens], [None, *tokens], tokens, tokens[1:], strict=False):
        # `U&"items"` is a name with escapes, which the parser takes for a conjunction of bits.
        if name.token_type is TokenType.AMP and name.end + 1 == after.start and name.text == "&":
            return False
        if after.token_type is not TokenType.L_PAREN or not re.match(r"[^\W\d]", name.text):
            continue
        is_quoted = name.token_type is TokenType.IDENTIFIER
        is_catalogs = schema is not None and schema.text.lower() == "pg_catalog"
        # `ORDER BY` is one word to the tokenizer.
        word = name.text if is_quoted else name.text.lower().rpartition(" ")[2]
        if word not in _FUNCTIONS and (is_quoted or word not in _WORDS):
            return False
        if before is not None and before.token_type is TokenType.DOT and not is_catalogs:
            return False
    return True


def _readings(tree: Any) -> Iterator[Reading]:
    """Every table that is named, narrowed where its `SELECT` does."""
    narrowed: dict[int, list[Condition]] = {}
    for select in tree.find_all(exp.Select):
        narrowed.update(_Scope(select).narrowed())
    for table in tree.find_all(exp.Table):
        # Of a function that gives rows the arguments are looked at, like all else. `FOR UPDATE OF` names tables again.
        if not isinstance(table.this, exp.Identifier) or isinstance(table.parent, exp.Lock) or _is_common_table(table):
            continue
        conditions = narrowed.get(id(table), [])
        yield Reading(*_name(table), tuple(conditions))


def _name(table: Any) -> tuple[str | None, str]:
    schema = table.args.get("db")
    return _folded(schema) if schema is not None else None, _folded(table.this)


def _folded(name: Any) -> str:
    """An identifier as the catalog has it."""
    return str(name.this) if name.args.get("quoted") else str(name.this).lower()


def _is_common_table(table: Any) -> bool:
    """Whether a name is of a `WITH` around it that it can see: not yet its own one, unless that is recursive."""
    schema, name = _name(table)
    if schema is not None:
        return False
    node = table
    while node.parent is not None:
        parent = node.parent
        if isinstance(parent, exp.With):
            seen = parent.expressions
            if not parent.args.get("recursive"):
                seen = seen[: next(at for at, common in enumerate(seen) if common is node)]
        else:
            clause = parent.args.get("with_")
            seen = clause.expressions if clause is not None and clause is not node else []
        if any(_folded(common.args["alias"].this) == name for common in seen):
            return True
        node = parent
    return False


Column = tuple[str, str]
"""A table's name in its `SELECT`, and a column's."""


class _Scope:
    """The tables of one `FROM`, and the conditions on them."""

    def __init__(self, select: Any) -> None:
        self.tables: dict[str, Any] = {}
        self.values: dict[Column, tuple[Value, ...]] = {}
        self.equal: list[tuple[Column, Column]] = []
        source = select.args.get("from_")
        joins = select.args.get("joins") or []
        sources = ([source.this] if source is not None else []) + [join.this for join in joins]
        for item in sources:
            self._add(item)
        self.is_alone = len(sources) == 1 and select.parent is None
        where = select.args.get("where")
        if where is not None:
            self._all(where.this)
        for join in joins:
            condition, side = join.args.get("on"), _narrowed_by(join)
            if condition is not None and side is not None:
                self._all(condition, only=side or None)

    def _add(self, item: Any) -> None:
        if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
            return
        alias = item.args.get("alias")
        # Renamed columns, and joins in parentheses, are not followed.
        is_plain = not item.args.get("joins") and not (alias is not None and alias.args.get("columns"))
        name = _alias(item)
        is_followed = is_plain and name not in self.tables and not _is_common_table(item)
        self.tables[name] = item if is_followed else None

    def _followed(self, column: Column) -> bool:
        return self.tables.get(column[0]) is not None

    def narrowed(self) -> dict[int, list[Condition]]:
        """The conditions for each table, by its place in the statement."""
        known = {at: Condition(at[1], values) for at, values in self.values.items() if self._followed(at)}
        # An equality carries over at most once for each pair.
        for _ in self.equal:
            for source, other in self.equal:
                if source in known and other not in known and self._followed(other):
                    place = Place(*_name(self.tables[source[0]]), source[1])
                    known[other] = Condition(other[1], known[source].values, (*known[source].via, place))
        found: dict[int, list[Condition]] = {}
        for (name, _column), condition in sorted(known.items()):
            found.setdefault(id(self.tables[name]), []).append(condition)
        return found

    def _all(self, condition: Any, only: str | None = None) -> None:
        """A condition holds for each combination, or for each that has a row of one table."""
        for part in _parts(condition, exp.And):
            for column, values in self._some(part).items():
                if only is None or column[0] == only:
                    self.values.setdefault(column, values)
            self._equal(part, only)

    def _equal(self, part: Any, only: str | None) -> None:
        if type(part) is not exp.EQ:
            return
        sides = self._column(part.this), self._column(part.expression)
        for known, other in (sides, sides[::-1]):
            if known and other and known[0] != other[0] and (only is None or other[0] == only):
                self.equal.append((known, other))

    def _some(self, part: Any) -> Mapping[Column, tuple[Value, ...]]:
        """The columns that must have one of some values where the condition is true."""
        if isinstance(part, exp.Paren):
            return self._some(part.this)
        if isinstance(part, exp.And):
            found: dict[Column, tuple[Value, ...]] = {}
            for inner in _parts(part, exp.And):
                for column, values in self._some(inner).items():
                    found.setdefault(column, values)
            return found
        if isinstance(part, exp.Or):
            branches = [self._some(inner) for inner in _parts(part, exp.Or)]
            common = set.intersection(*(set(branch) for branch in branches))
            return {column: tuple(v for branch in branches for v in branch[column]) for column in common}
        if type(part) is exp.EQ:
            for column, value in ((part.this, part.expression), (part.expression, part.this)):
                place, constants = self._column(column), _constants(value)
                if place and constants:
                    return {place: constants}
        if type(part) is exp.In and not set(_given(part)) - {"this", "expressions"}:
            place = self._column(part.this)
            lists = [_constant(value) for value in part.expressions]
            if place and lists and None not in lists:
                return {place: tuple(value for value in lists if value)}
        return {}

    def _column(self, node: Any) -> Column | None:
        if type(node) is not exp.Column or not isinstance(node.this, exp.Identifier) or node.args.get("db"):
            return None
        if node.args.get("table") is not None:
            return _folded(node.args["table"]), _folded(node.this)
        # A column without a table is of the one that there is.
        if self.is_alone and len(self.tables) == 1:
            return next(iter(self.tables)), _folded(node.this)
        return None


def _alias(table: Any) -> str:
    alias = table.args.get("alias")
    return _folded(alias.this if alias is not None and alias.this is not None else table.this)


def _narrowed_by(join: Any) -> str | None:
    """The table that a join's condition narrows: an empty name for all of them, None for none."""
    # The columns of `NATURAL` and `USING` are of both sides, and named without a table.
    if join.args.get("method") or join.args.get("using"):
        return None
    kind, side = join.args.get("kind") or "", join.args.get("side") or ""
    if not side and kind in ("", "INNER"):
        return ""
    is_left = side == "LEFT" and kind in ("", "OUTER") and isinstance(join.this, exp.Table)
    return _alias(join.this) if is_left else None


def _given(node: Any) -> list[str]:
    return [name for name, value in node.args.items() if value not in (None, False, [])]


def _parts(node: Any, kind: Any) -> Iterator[Any]:
    stack = [node]
    while stack:
        part = stack.pop()
        while isinstance(part, exp.Paren):
            part = part.this
        if type(part) is kind:
            stack += [part.expression, part.this]
        else:
            yield part


def _constants(node: Any) -> tuple[Value, ...]:
    """The values of the right side of an equality; none if they are not known."""
    if type(node) is exp.Any:
        inner = _bare(node.this, is_list=True)
        if isinstance(inner, exp.Parameter):
            value = _constant(inner)
            return (Parameter(value.index, is_list=True),) if isinstance(value, Parameter) else ()
        values = [_constant(item) for item in inner.expressions] if isinstance(inner, exp.Array) else []
        return tuple(value for value in values if value) if None not in values else ()
    value = _constant(node)
    return (value,) if value else ()


def _constant(node: Any) -> Value | None:
    node = _bare(node)
    if isinstance(node, exp.Parameter) and isinstance(node.this, exp.Literal) and str(node.this.this).isdigit():
        index = int(str(node.this.this)) - 1
        return Parameter(index) if index >= 0 else None
    if type(node) is exp.Literal:
        text = str(node.this)
        if node.is_string:
            return Constant(text)
        return Constant(int(text)) if text.isdecimal() and text.isascii() else None
    return None


# Casts that leave a value's text as it is, or fail.
_CASTS = frozenset("SMALLINT INT BIGINT TEXT VARCHAR UUID".split())


def _bare(node: Any, *, is_list: bool = False) -> Any:
    """A value without parentheses and harmless casts."""
    while True:
        if isinstance(node, exp.Paren) or (type(node) is exp.Cast and _is_harmless(node.to, is_list)):
            node = node.this
        else:
            return node


def _is_harmless(type_: Any, is_list: bool) -> bool:
    name = getattr(type_.this, "value", "")
    if is_list and name == "ARRAY" and len(type_.expressions) == 1:
        return _is_harmless(type_.expressions[0], is_list=False)
    return name in _CASTS and not type_.expressions
