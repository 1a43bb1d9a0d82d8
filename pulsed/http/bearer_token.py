"""Bearer tokens in files, as the kubelet writes and renews them."""

from __future__ import annotations

MAX_BYTES = 64 * 1024


class BadToken(Exception):
    """A file without a usable token; the text has the file and the reason, and not its content."""


def read_token(path: str) -> str:
    """Return the token in a file, without white space around it.

    Raises:
        BadToken: the file cannot be read, is empty, or holds more than one word of printable ASCII.
    """
    try:
        with open(path, encoding="ascii") as file:
            token = file.read(MAX_BYTES).strip()
    except OSError as error:
        raise BadToken(f"bearer token file {path}: {error.strerror}") from error
    except UnicodeDecodeError:  # its text repeats the content
        raise BadToken(f"bearer token file {path}: not ASCII text") from None
    if not token or not token.isprintable() or " " in token:
        raise BadToken(f"bearer token file {path} holds no token")
    return token
