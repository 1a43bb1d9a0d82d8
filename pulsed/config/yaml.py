"""YAML as the configuration reads it: every value with the place where it was given.

Types follow YAML 1.2: `on` is a word, `1:30` is not a number in base 60, and a date stays a text; a key whose
kind is a text gets what is written, `007` and all. Duplicate keys are mistakes here. No error repeats what a file
holds: it may be a secret. Independent of the keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import yaml

from pulsed.config.settings import Style
from pulsed.config.values import resolve_path

Value = None | bool | int | float | str | list["LocatedValue"] | dict[str, "LocatedValue"]

Styles = Callable[[tuple[str, ...]], Style]
"""How the plain scalars of a key, given by its path, are taken."""


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value with the place where it was given.

    Attributes:
        origin: where, in words for a person: `pulsed.yaml:12`, `environment variable PULSED_LISTEN`.
    """

    value: Value
    origin: str

    @property
    def plain(self) -> object:
        """The value without places."""
        if isinstance(self.value, dict):
            return {name: item.plain for name, item in self.value.items()}
        return [item.plain for item in self.value] if isinstance(self.value, list) else self.value

    def at(self, path: Sequence[str | int]) -> LocatedValue:
        """Return what was given at a path, or for the closest section around it."""
        closest = self
        for part in path:
            inner = closest.value
            if isinstance(inner, dict) and part in inner:
                closest = inner[str(part)]
            elif isinstance(inner, list) and isinstance(part, int):
                closest = inner[part]
            else:
                break
        return closest


class BadYaml(Exception):
    """A text is not valid YAML, or is too large for a configuration."""


@dataclass(slots=True)
class YamlText:
    """One YAML text and where it comes from.

    Attributes:
        file: whether `origin` is a file: then places have line numbers, and relative names of files count from its
            folder.
        problems: filled by `read`: mistakes that leave the rest readable, one line each.
    """

    text: str
    origin: str
    styles: Styles
    file: bool = False
    problems: list[str] = field(default_factory=list)
    nodes: int = 0

    def read(self, path: tuple[str, ...] = ()) -> LocatedValue:
        """Read the text as the value of the key `path`; the path of a whole file is empty.

        Raises `BadYaml` if it cannot be read at all.
        """
        try:
            self._refuse_depth()
            node = yaml.compose(self.text, Loader=_LOADER)
            return LocatedValue(None, self.origin) if node is None else self._located(node, path)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f"{self.origin}:{mark.line + 1}:{mark.column + 1}" if self.file and mark else self.origin
            problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
            raise BadYaml(f"{where}: not valid YAML: {_NAMES.sub('', problem)}") from None
        except RecursionError:  # an alias inside its own anchor
            raise BadYaml(f"{self.origin}: not a configuration: it is nested without end") from None

    def _refuse_depth(self) -> None:
        """Look how deep the text is nested, event by event: at 100,000 levels libyaml's composer ends the process."""
        depth = 0
        for event in yaml.parse(self.text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _MAX_DEPTH:
                raise BadYaml(f"{self.origin}: not a configuration: it is nested deeper than {_MAX_DEPTH} levels")

    def _located(self, node: yaml.Node, path: tuple[str, ...]) -> LocatedValue:
        self.nodes += 1
        if self.nodes > _MAX_NODES:
            raise BadYaml(f"{self.origin}: not a configuration: it has more than {_MAX_NODES} values")
        where = self._where(node)
        if not node.tag.startswith("tag:yaml.org,2002:") or node.tag[18:] not in ("str", "seq", "map"):
            self.problems.append(f"{where}: {'.'.join(path) or 'the file'}: has a YAML tag; write the value without it")
            return LocatedValue(None, where)
        if isinstance(node, yaml.MappingNode):
            return LocatedValue(self._mapping(node, path), where)
        if isinstance(node, yaml.SequenceNode):
            return LocatedValue([self._located(item, path) for item in node.value], where)
        assert isinstance(node, yaml.ScalarNode)
        text = str(node.value)
        value = text if node.style else _scalar(text)
        style = self.styles(path)
        if value is not None and style != "typed":
            value = resolve_path(self.origin, text) if self.file and style == "file" else text
        return LocatedValue(value, where)

    def _mapping(self, node: yaml.MappingNode, path: tuple[str, ...]) -> dict[str, LocatedValue]:
        mapping: dict[str, LocatedValue] = {}
        for key, item in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            where = self._where(key)  # the key's line: a value that is left out stands where the next key begins
            value = LocatedValue(self._located(item, (*path, name)).value, where)
            if name in mapping:
                self.problems.append(
                    f"{where}: {'.'.join((*path, name))}: is given twice, first at {mapping[name].origin}; "
                    "leave one of them out"
                )
            else:
                mapping[name] = value
        return mapping

    def _where(self, node: yaml.Node) -> str:
        return f"{self.origin}:{node.start_mark.line + 1}" if self.file else self.origin


def _loader() -> type[yaml.SafeLoader] | type[yaml.CSafeLoader]:
    """Return the fast loader where PyYAML has it, with no types of its own: scalars come as they are written."""
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    untyped: type[yaml.SafeLoader] = type("_Untyped", (base,), {"yaml_implicit_resolvers": {}})
    return untyped


_LOADER = _loader()

_MAX_DEPTH = 50
_MAX_NODES = 100_000
"""An alias of aliases can unfold to billions."""

_NAMES = re.compile(r"(?<=alias|nchor) .*|(?<=tag) .*")
"""The part of a PyYAML error that repeats the text, which may be a secret."""

# YAML 1.2, core schema. At most 18 digits: no Python integer of a million digits.
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def _scalar(text: str) -> bool | int | float | str | None:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
