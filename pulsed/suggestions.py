"""The "did you mean" of error messages. Must not import any layer."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_WORD = 64
"""No known word is longer; comparing takes the product of both lengths."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant; None if there is none like it. Case does not count.

    In words with dots (`source.interval`) a word of the same section goes before the same name in another section.
    """
    from difflib import get_close_matches  # only errors need it

    if len(word) > LONGEST_WORD:
        return None
    by_lower = {each.lower(): each for each in known}
    word = word.lower()
    section, _, name = word.rpartition(".")
    siblings = {each.rpartition(".")[2]: each for each in by_lower if each.rpartition(".")[0] == section}
    for matches in (
        get_close_matches(name, siblings, 1, 0.7),
        [each for each in by_lower if each.rpartition(".")[2] == name],
        get_close_matches(word, by_lower, 1, 0.7),
        get_close_matches(name, siblings, 1, 0.5),
    ):
        if matches:
            return by_lower[siblings.get(matches[0], matches[0])]
    return None


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the question `did you mean ...?`, or `otherwise` if no known word is like this one."""
    near = nearest(word, known)
    return f"did you mean {near}?" if near else otherwise
