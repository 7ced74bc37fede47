"""A lifecycle, declared once (K3, K21, W21).

The declaration says what a row can be, how it may move, which columns go with which state, and what
ends each live state. From it come the guard in Python, the guard in the database, the diagram, the
list of bounds and the matrix tests. A declaration that cannot be right does not import: among
others one with a live state that nothing bounds, or from which no end can be reached.

The guard in the database is two row triggers whose WHEN clauses hold the legal pairs, so that a
legal move runs no procedural code. `before update of state` fires for statements that name the
state column: writing the same state again is refused, a renewal that leaves it out costs nothing.
`is not true` also catches null, which neither IN nor CHECK would.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from ferryman.kernel import errors

State = TypeVar("State", bound=StrEnum)

SQLSTATE: Final = "FM001"
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_CODE = re.compile(r"[A-Z][A-Z0-9_]*")
# The sources spell some states in capitals, and their spelling is kept.
_STATE = re.compile(r"[a-z][a-z0-9_]*|[A-Z][A-Z0-9_]*")
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class Bound:
    """What ends a live state: the rule that does it, and the column with the time by which."""

    rule: str
    column: str


@dataclass(frozen=True, slots=True)
class Move(Generic[State]):
    """One named way from some states to another."""

    name: str
    out_of: tuple[State, ...]
    to: State
    fenced: bool = False
    repair: bool = False


def move(name: str, *, out_of: Iterable[State], to: State, fenced: bool = False, repair: bool = False) -> Move[State]:
    """Declare a move; `fenced` compares owner and epoch, `repair` is the watchdog's."""
    return Move(name, tuple(out_of), to, fenced, repair)


@dataclass(frozen=True, kw_only=True, eq=False)
class Machine(Generic[State]):
    """The lifecycle of one table's rows.

    `present` lists columns that are not null in exactly these states. `resting` states may last for
    ever by right, because nothing is owed in them (an idle agent). The same name may be given to
    moves out of different states; several names may share a pair.
    """

    name: str
    table: str
    states: type[State]
    initial: Collection[State]
    moves: Collection[Move[State]]
    ends_by: Mapping[State, Bound]
    present: Mapping[str, Collection[State]] = field(default_factory=dict)
    resting: Collection[State] = ()
    column: str = "state"
    id_column: str = "id"
    code: str = "TASK_INVALID_TRANSITION"

    def __post_init__(self) -> None:
        self._check_words()
        if not _CODE.fullmatch(self.code):
            raise self._wrong(f"{self.code!r} is not a code")
        for state, where in self._mentions():
            if not isinstance(state, self.states):
                raise self._wrong(f"unknown state {state!r} in {where}")
        self._check_moves()
        self._check_reach()
        self._check_bounds()
        for column, states in self.present.items():
            if not states:
                raise self._wrong(f"column {column} is present in no state")
        for name in [*self.constraints(), *self.triggers()]:
            if len(name) > _LONGEST_NAME:
                raise self._wrong(f"PostgreSQL would cut the name {name}")

    # What may happen

    @cached_property
    def terminal(self) -> frozenset[State]:
        """The states nothing leaves."""
        left = {state for each in self.moves for state in each.out_of}
        return frozenset(self.states) - left - frozenset(self.resting)

    @cached_property
    def live(self) -> frozenset[State]:
        """The states a rule must end."""
        return frozenset(self.states) - self.terminal - frozenset(self.resting)

    @cached_property
    def legal(self) -> frozenset[tuple[State, State]]:
        """Every legal (from, to)."""
        return frozenset((state, each.to) for each in self.moves for state in each.out_of)

    def pairs(self) -> list[tuple[State, State]]:
        """Return every legal (from, to), sorted."""
        return sorted(self.legal)

    def allows(self, name: str, state: State) -> bool:
        """Say whether this move may start from this state."""
        named = [each for each in self.moves if each.name == name]
        if not named:
            raise self._wrong(f"no move is named {name!r}")
        return any(state in each.out_of for each in named)

    def check(self, from_: State | None, to: State, *, id: object = None) -> None:
        """Refuse an illegal move, or a birth (from None) in a state that is not initial."""
        if to in self.initial if from_ is None else (from_, to) in self.legal:
            return
        told = None if id is None else str(id)
        raise errors.InvalidTransition(code=self.code, from_=from_, to=to, id=told)

    def bounds(self) -> dict[State, Bound]:
        """Return what ends each live state, in order of declaration."""
        return {state: self.ends_by[state] for state in self.states if state in self.ends_by}

    # What the database is told

    def constraints(self) -> dict[str, str]:
        """Return the CHECK constraints: name to expression."""
        known = f"{self.column} in ({_listed(self.states)})"
        checks = {f"{self.table}_{self.column}_known": known}
        for column, states in self.present.items():
            ordered = [state for state in self.states if state in states]
            checks[f"{self.table}_{column}_present"] = (
                f"({self.column} in ({_listed(ordered)})) = ({column} is not null)"
            )
        return checks

    def triggers(self) -> dict[str, tuple[str, str]]:
        """Return the triggers: name to the event and the WHEN expression."""
        legal = ", ".join(f"('{out_of}', '{to}')" for out_of, to in self.pairs())
        births = _listed(state for state in self.states if state in self.initial)
        changed = f"((old.{self.column}, new.{self.column}) in ({legal})) is not true"
        born = f"(new.{self.column} in ({births})) is not true"
        return {
            f"{self.table}_{self.column}_moves": (f"update of {self.column}", changed),
            f"{self.table}_{self.column}_births": ("insert", born),
        }

    def guard_sql(self, schema_token: str = "ferryman") -> str:
        """Return the constraints and triggers of this machine; `refuse_sql` comes before them."""
        table = f"{schema_token}.{self.table}"
        parts = [
            f"alter table {table} add constraint {name}\n    check ({expression});"
            for name, expression in self.constraints().items()
        ]
        told = f"'{self.code}', '{self.column}', '{self.id_column}'"
        parts += [
            f"create trigger {name}\nbefore {event} on {table}\nfor each row\nwhen ({refused})\n"
            f"execute function {schema_token}.refuse_move({told});"
            for name, (event, refused) in self.triggers().items()
        ]
        return "\n\n".join(parts) + "\n"

    # What people read

    def mermaid(self) -> str:
        """Return the state diagram; repairs are marked."""
        lines = ["stateDiagram-v2"]
        lines += [f"    [*] --> {state}" for state in self.states if state in self.initial]
        for out_of, to in sorted(self.pairs(), key=lambda p: list(map(list(self.states).index, p))):
            names = [
                f"{each.name} (repair)" if each.repair else each.name
                for each in self.moves
                if out_of in each.out_of and each.to == to
            ]
            lines.append(f"    {out_of} --> {to}: {', '.join(names)}")
        lines += [f"    {state} --> [*]" for state in self.states if state in self.terminal]
        return "\n".join(lines) + "\n"

    # What cannot be right

    def _words(self) -> list[str]:
        columns = [self.column, self.id_column, *self.present]
        columns += [bound.column for bound in self.ends_by.values()]
        return [self.table, *columns, *(each.name for each in self.moves)]

    def _mentions(self) -> list[tuple[Any, str]]:
        found = [(state, "initial") for state in self.initial]
        found += [(state, "resting") for state in self.resting]
        found += [(state, "ends_by") for state in self.ends_by]
        for each in self.moves:
            found += [(state, f"move {each.name}") for state in (*each.out_of, each.to)]
        for column, states in self.present.items():
            found += [(state, f"present {column}") for state in states]
        return found

    def _check_words(self) -> None:
        for word in self._words():
            if not _WORD.fullmatch(word):
                raise self._wrong(f"{word!r} is not a plain lower-case word")
        for spelled in self.states:
            if not _STATE.fullmatch(spelled):
                raise self._wrong(f"{spelled.value!r} is not a plain word in one case")

    def _check_moves(self) -> None:
        seen: set[tuple[str, State]] = set()
        for each in self.moves:
            if not each.out_of:
                raise self._wrong(f"move {each.name} starts nowhere")
            for state in each.out_of:
                if state == each.to:
                    raise self._wrong(f"move {each.name} goes from {state} to the same state")
                if (each.name, state) in seen:
                    raise self._wrong(f"move {each.name} is declared twice out of {state}")
                seen.add((each.name, state))

    def _check_reach(self) -> None:
        if not self.initial:
            raise self._wrong("no state is initial")
        reached = _closure(self.initial, self.pairs())
        ends = self.terminal | frozenset(self.resting)
        ending = _closure(ends, [(to, out_of) for out_of, to in self.pairs()])
        for state in self.states:
            if state not in reached:
                raise self._wrong(f"nothing reaches state {state}")
            if state not in ending:
                raise self._wrong(f"no way leads from state {state} to an end")

    def _check_bounds(self) -> None:
        for state in self.states:
            bound = self.ends_by.get(state)
            if state in self.live and bound is None:
                raise self._wrong(f"nothing bounds live state {state}")
            if bound is None:
                continue
            if state not in self.live:
                raise self._wrong(f"state {state} is not live but has a bound")
            if bound.column in self.present and state not in self.present[bound.column]:
                raise self._wrong(f"column {bound.column} bounds state {state} but is null there")

    def _wrong(self, reason: str) -> ValueError:
        return ValueError(f"machine {self.name}: {reason}")


def refuse_sql(schema_token: str = "ferryman") -> str:
    """Return the function all guards call: it only ever raises."""
    return f"""\
create function {schema_token}.refuse_move() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
declare
    was text := case tg_op when 'UPDATE' then to_jsonb(old) ->> tg_argv[1] end;
begin
    raise exception using
        errcode = '{SQLSTATE}',
        message = tg_argv[0],
        detail = jsonb_build_object(
            'table', tg_table_name,
            'id', to_jsonb(new) ->> tg_argv[2],
            'from', was,
            'to', to_jsonb(new) ->> tg_argv[1]
        )::text;
end
$$;
"""


def _closure(start: Collection[State], pairs: list[tuple[State, State]]) -> set[State]:
    reached = set(start)
    while more := {to for out_of, to in pairs if out_of in reached} - reached:
        reached |= more
    return reached


def _listed(states: Iterable[StrEnum]) -> str:
    return ", ".join(f"'{state}'" for state in states)
