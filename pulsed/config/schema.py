"""Reads and validates a document of the configuration language: of pulsed's own file, or of the web configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from pulsed.config.problems import messages_of
from pulsed.config.section import Section, keys, section_of
from pulsed.config.values import Style, notation_of
from pulsed.config.yaml import BadYaml, Given, YamlText
from pulsed.errors import ConfigError

_S = TypeVar("_S", bound=Section)


class Schema(Generic[_S]):
    """The keys of a document.

    Args:
        example: a line of such a document, for an error message.
    """

    def __init__(self, root: type[_S], example: str) -> None:
        self._root, self._example = root, example
        self.keys = keys(root)

    def style(self, path: tuple[str, ...]) -> Style:
        """Return how the plain scalars of a key are taken; in a mapping of free names, as those of the mapping."""
        while path and ".".join(path) not in self.keys:
            path = path[:-1]
        field = self.keys[".".join(path)] if path else None
        notation = notation_of(field) if field and not section_of(field) else None
        return notation.style if notation else "typed"

    def read(self, file: Path, problems: list[str]) -> Given:
        """Read a YAML file; one that is empty, or that cannot be read, has no keys.

        Args:
            problems: gets what is wrong, one line each.
        """
        nothing = Given({}, str(file))
        try:
            text = file.read_bytes().decode("utf-8-sig")
            yaml = YamlText(text, str(file), self.style, file=True)
            given = yaml.read()
        except OSError as error:
            problems.append(f"{file}: cannot be read: {error.strerror}; name a YAML file that pulsed's user may read")
            return nothing
        except ValueError as error:  # a zero byte in the name, or not UTF-8
            reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            problems.append(f"{file}: cannot be read: {reason}; name a YAML file")
            return nothing
        except BadYaml as error:
            problems.append(str(error))
            return nothing
        problems += yaml.problems
        if isinstance(given.value, dict):
            return given
        if given.value is not None:
            problems.append(f"{given.origin}: the file must hold keys with values, as in '{self._example}'")
        return nothing

    def validate(self, given: Given, problems: list[str]) -> _S:
        """Return the section of a document.

        Raises:
            ConfigError: with all problems, a line each: where, which key, what was given, and what is allowed.
        """
        try:
            found = self._root.model_validate(self._plain(given, ""))
        except ValidationError as error:
            raise ConfigError("\n".join([*problems, *messages_of(error, given, self.keys)])) from None
        if problems:
            raise ConfigError("\n".join(problems))
        return found

    def _plain(self, given: Given, prefix: str) -> object:
        """Return the values alone. A key that is given nothing (`interval:`) has its default."""
        if isinstance(given.value, dict):
            return {
                name: self._plain(inner, f"{prefix}{name}.")
                for name, inner in given.value.items()
                if inner.value is not None or prefix + name not in self.keys
            }
        return [self._plain(item, prefix) for item in given.value] if isinstance(given.value, list) else given.value
