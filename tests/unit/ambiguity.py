"""Texts that could cost a pattern much more time than their length is worth, found by how the pattern is made.

A pattern is read in ways, and `re` tries them one after another. It is slow where one text can be read in ever more of them:
where it has two places such that some word leads from the first to itself, from the first to the second, and from the second
to itself. Each repetition of that word doubles the ways, or adds one at which the first was left for the second. To search
in a text is to begin at each of its places, as if the pattern began with a repetition of anything. What looks ahead or
behind is taken for what need not be so, what goes back to a group for anything, and a repetition for one without end: a word
that is found here is a suspicion, to be tried; where none is found there is no such text.
"""

from __future__ import annotations

import random
import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

# The parser of the standard library has no other name.
op: Any = import_module("re._constants")
parser: Any = import_module("re._parser")
# Of every kind of character that a class can tell apart.
CHARACTERS = "".join(map(chr, range(256))) + "\u0130\u017f\u0663\u2028\u3000\ud800\U0001f600"
START = -1
ANYTHING = -2
CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}
ALL = [(op.CATEGORY, op.CATEGORY_SPACE), (op.CATEGORY, op.CATEGORY_NOT_SPACE)]
# So often words are looked for in another order: not each that a pair of places knows is slow in truth.
ORDERS = 6
# So many ends of a text are tried for each of them.
ENDS = 40


class Slow(NamedTuple):
    """A text that may be slow: what comes before, what is repeated, and what spoils it at the end."""

    before: str
    again: str
    after: str

    def of(self, size: int) -> str:
        """Return it in about a size."""
        return self.before + self.again * (size // len(self.again)) + self.after


class Part(NamedTuple):
    """A piece of a pattern: whether it may be empty, and the places at which it begins and ends.

    It is held if it is empty at the beginning of a text alone, and places that are `fixed` are begun with there alone.
    """

    empty: bool
    first: list[int]
    last: list[int]
    held: bool = False
    fixed: list[int] = []  # noqa: RUF012 - nobody writes to it


NOTHING = Part(True, [], [])
BEGINNING = Part(True, [], [], held=True)


@dataclass
class Places:
    """The places of a pattern, each of which reads one character, and which follows which in how many ways."""

    flags: int
    reads: dict[int, frozenset[str]] = field(default_factory=dict)
    follow: Counter[tuple[int, int]] = field(default_factory=Counter)
    letters: str = ""

    def place(self, reads: frozenset[str]) -> Part:
        at = len(self.reads)
        self.reads[at] = reads
        return Part(False, [at], [at])

    def join(self, before: Part, after: Part) -> Part:
        self.follow.update(product(before.last, after.first))
        return Part(
            before.empty and after.empty,
            before.first + (after.first if before.empty and not before.held else []),
            after.last + (before.last if after.empty and not after.held else []),
            before.held or after.held,
            before.fixed + (after.fixed if before.empty else []) + (after.first if before.held else []),
        )

    def sequence(self, items: Any) -> Part:
        made = NOTHING
        for kind, given in items:
            made = self.join(made, self.item(kind, given))
        return made

    def item(self, kind: Any, given: Any) -> Part:  # noqa: PLR0911 - one answer for each kind of item
        """Return the part that an item of the parser's tree makes."""
        if kind is op.AT:
            begins = given in (op.AT_BEGINNING, op.AT_BEGINNING_STRING) and not self.flags & re.MULTILINE
            return BEGINNING if begins else NOTHING
        if kind in (op.ASSERT, op.ASSERT_NOT):
            # It is read and leads nowhere; whatever follows is read from where it began.
            return self.sequence(given[1])._replace(empty=True, last=[], held=False)
        if kind in (op.SUBPATTERN, op.ATOMIC_GROUP):
            return self.sequence(given[-1] if kind is op.SUBPATTERN else given)
        if kind is op.BRANCH:
            return self.branch([self.sequence(each) for each in given[1]])
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            least, most, body = given
            made = self.sequence(body)
            if most > 1:
                self.follow.update(product(made.last, made.first))
            return made._replace(empty=made.empty or least == 0, held=made.held and least > 0)
        if kind is op.GROUPREF:
            return self.item(op.MAX_REPEAT, (0, op.MAXREPEAT, [(op.IN, ALL)]))
        return self.place(self.characters(kind, given))

    def branch(self, parts: list[Part]) -> Part:
        empty = [each for each in parts if each.empty]
        return Part(
            bool(empty),
            [at for each in parts for at in each.first],
            [at for each in parts for at in each.last],
            bool(empty) and all(each.held for each in empty),
            [at for each in parts for at in each.fixed],
        )

    def characters(self, kind: Any, given: Any) -> frozenset[str]:
        """Return the characters that an item of one character reads."""
        items = given if kind is op.IN else [(kind, given)]
        told = "".join(map(self.told, items))
        if kind is op.IN:
            told = f"[{told}]"
        shown = re.compile(told, self.flags & (re.IGNORECASE | re.DOTALL | re.ASCII))
        return frozenset(each for each in CHARACTERS if shown.fullmatch(each))

    @staticmethod
    def told(item: tuple[Any, Any]) -> str:
        """Write an item as it may stand in a class, or alone."""
        kind, given = item
        if kind is op.LITERAL:
            return f"\\U{given:08x}"
        if kind is op.NOT_LITERAL:
            return f"[^\\U{given:08x}]"
        if kind is op.RANGE:
            return f"\\U{given[0]:08x}-\\U{given[1]:08x}"
        if kind is op.CATEGORY:
            return CATEGORIES[given]
        if kind is op.NEGATE:
            return "^"
        if kind is op.ANY:
            return "."
        raise NotImplementedError(f"{kind} is not known here; say how it is read")


def places(pattern: str | bytes, flags: int, *, searched: bool) -> Places:
    """Take a pattern apart."""
    read = parser.parse(pattern, flags)
    made = Places(read.state.flags)
    whole = made.sequence(read)
    made.reads[START] = frozenset()
    made.follow.update(product([START], whole.first + whole.fixed))
    if searched:
        made.reads[ANYTHING] = frozenset(CHARACTERS)
        made.follow.update([(START, ANYTHING), (ANYTHING, ANYTHING)])
        made.follow.update(product([ANYTHING], whole.first))
    made.letters = _letters(made, bytes_only=isinstance(pattern, bytes))
    return made


def _letters(made: Places, *, bytes_only: bool) -> str:
    """Return one character of each kind that the pattern tells apart."""
    kinds: dict[tuple[bool, ...], str] = {}
    for each in CHARACTERS[:256] if bytes_only else CHARACTERS:
        kind = tuple(each in reads for reads in made.reads.values())
        if kind not in kinds or each.isprintable() > kinds[kind].isprintable():
            kinds[kind] = each
    return "".join(kinds.values())


def suspects(pattern: str | bytes, flags: int = 0, *, searched: bool) -> Iterator[Slow]:
    """Give texts that a pattern may be slow on."""
    made = places(pattern, flags, searched=searched)
    steps = {at: [to for out_of, to in made.follow if out_of == at] for at in made.reads}
    begun = {
        (before, again)
        for at, again in _loops(made, steps)
        if (before := _word(made, steps, (START,), (at,), made.letters)) is not None
    }
    pairs = ["".join(each) for each in product(made.letters, repeat=2)]
    alone = ["", *made.letters]
    ends = alone + random.Random(0).sample(pairs, max(0, min(len(pairs), ENDS - len(alone))))
    for before, again in sorted(begun):
        for after in ends:
            yield Slow(before, again, after)


def _loops(made: Places, steps: dict[int, list[int]]) -> Iterator[tuple[int, str]]:
    """Give the places at which the ways become more, each with the word that makes them so."""
    around = [at for at in made.reads if _word(made, steps, (at,), (at,), made.letters) is not None]
    for (one, other), ways in made.follow.items():
        back = _word(made, steps, (other,), (one,), made.letters, least=0)
        if ways > 1 and back is not None:
            yield one, next(each for each in made.letters if each in made.reads[other]) + back
    for one, other in product(around, around):
        if one == other:
            continue
        for order in range(ORDERS):
            letters = "".join(random.Random(order).sample(made.letters, len(made.letters)))
            again = _word(made, steps, (one, one, other), (one, other, other), letters)
            if again is None:
                break
            yield one, again


def _word(
    made: Places,
    steps: dict[int, list[int]],
    start: tuple[int, ...],
    end: tuple[int, ...],
    letters: str,
    least: int = 1,
) -> str | None:
    """Return a shortest word that leads each of some places to its end, all at once."""
    if least == 0 and start == end:
        return ""
    seen, line = {start}, deque([(start, "")])
    while line:
        at, word = line.popleft()
        for letter in letters:
            for to in product(*([each for each in steps[one] if letter in made.reads[each]] for one in at)):
                if to == end:
                    return word + letter
                if to not in seen:
                    seen.add(to)
                    line.append((to, word + letter))
    return None
