"""The fastest way to read a page: recognise the last one, and take the numbers out of it.

Two pages of one exporter differ only in their numbers as long as no series, comment or spelling changes. A template
holds everything of a page but the numbers, cut at each `}`, so that reading the next page is a handful of C loops.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulsed.model.raw_tick import RawValue


class _Numbers(dict[str, float]):
    """Cache of numbers by their text; a missing text is parsed by `float`."""

    __missing__ = staticmethod(float)


_NUMBERS = _Numbers({text: float(text) for text in (*(f" {number}" for number in range(101)), " 0.000000")})
"""As dcgm-exporter writes what much of a page is: counts of errors, percentages, temperatures. Found, not made."""


@dataclass(frozen=True, slots=True)
class Template:
    """A page without its numbers.

    Attributes:
        head: what stands before the first `}`.
        names: what follows each number, from its line feed up to, and with, the `{` of the next row: a name, and
            comments before it. Templates of targets with equal comments share the objects.
        labels: what follows that, up to, and without, the next `}`. The same object in all families of a GPU.
        length: characters of head, names, labels and braces together.
        picks: for each slot which number is its value, or -1 for a series that the page does not have; None where the
            numbers stand in the order of the slots already.
    """

    samples: int
    head: str
    names: Sequence[str]
    labels: Sequence[str]
    length: int
    picks: Sequence[int] | None

    def read(self, text: str) -> list[RawValue] | None:
        """Return the values of a page, by slot; None when the page does not fit or needs a closer look.

        Only plain numbers fit: a timestamp, an exemplar, a word or an empty value does not.
        """
        numbers = text.split("}")
        if len(numbers) != len(self.labels) + 1 or numbers[0] != self.head:
            return None
        del numbers[0]
        numbers = list(map(str.removesuffix, map(str.removesuffix, numbers, self.labels), self.names))
        digits = "".join(numbers)
        # A text that is not there leaves the number's piece longer than it should be, so the length is the proof that
        # all of them fit. A line feed left over would join two lines, and float() takes 1_000 and digits of any script.
        if len(digits) + self.length != len(text) or "\n" in digits or "_" in digits or not digits.isascii():
            return None
        try:
            values: list[RawValue] = list(map(_NUMBERS.__getitem__, numbers))
        except ValueError:
            return None
        if self.picks is None:
            return values
        values.append(None)
        return [values[pick] for pick in self.picks]


def make_template(text: str, samples: int, slots: int, keyed: Mapping[str, int]) -> Template | None:
    """Return a template from a page that was read line by line without rejecting a row; None if the page is unsuitable.

    Args:
        samples: rows read on the page.
        slots: how many series are known.
        keyed: the slot of each known row, by its text up to the closing brace.
    """
    # As many braces as rows, each closing a known row: then every other line is a comment or blank, and no number can
    # hide in what the template takes for constant.
    if samples == 0 or text.count("}") != samples:
        return None
    pieces = text.split("}")
    names: list[str] = []
    labels: list[str] = []
    places: dict[int, int] = {}
    key = pieces[0].rpartition("\n")[2]
    for place, piece in enumerate(pieces[1:]):
        slot = keyed.get(key)
        if slot is None:
            return None
        places[slot] = place  # a series given twice: the last one wins
        _, feed, rest = piece.partition("\n")
        name, brace, block = rest.rpartition("{")
        names.append(sys.intern(feed + name + brace))
        labels.append(sys.intern(block))
        key = rest.rpartition("\n")[2]
    in_order = len(places) == slots == samples and all(slot == place for slot, place in places.items())
    template = Template(
        samples=samples,
        head=pieces[0],
        names=names,
        labels=labels,
        length=len(pieces[0]) + sum(map(len, names)) + sum(map(len, labels)) + samples,
        picks=None if in_order else [places.get(slot, -1) for slot in range(slots)],
    )
    return template if template.read(text) is not None else None
