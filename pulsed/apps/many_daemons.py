"""One request to many daemons at a time: what answered, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from pulsed.apps.daemon_client import DaemonClient, DaemonUnreachable, RequestRefused
from pulsed.errors import PulsedError

REQUESTS = 64
"""Concurrent requests."""

Document = dict[str, Any]
Get = Callable[[str], Document]
"""Returns the document of a path."""


class DaemonAnswers(NamedTuple):
    """The documents of the daemons that answered, and the errors of the others, by node."""

    documents: Mapping[str, Document]
    errors: Mapping[str, PulsedError]

    @property
    def missing(self) -> list[dict[str, str]]:
        """`node` and `reason` of each that did not answer."""
        return [{"node": node, "reason": str(error.args[0])} for node, error in self.errors.items()]

    def checked(self) -> DaemonAnswers:
        """Return these answers.

        Raises:
            DaemonUnreachable, RequestRefused: no daemon answered.
        """
        if not self.documents:
            raise next(iter(self.errors.values()))
        return self


def all_answers(clients: Mapping[str, DaemonClient], request: Callable[[Get], Document], has: str) -> DaemonAnswers:
    """Return what is requested of each daemon, or its error.

    Args:
        clients: by node.
        request: gets a function of paths.
        has: a member that every document has, unless the daemon is something else.
    """

    def answer(client: DaemonClient) -> Document | PulsedError:
        def get(path: str) -> Document:
            document: Document = client.json(path)
            if not isinstance(document, dict) or has not in document:
                raise DaemonUnreachable(f"{client.address}{path}: the answer has no {has}", "Check that it is a pulsed")
            return document

        try:
            return request(get)
        except (DaemonUnreachable, RequestRefused) as error:
            return error

    with ThreadPoolExecutor(max_workers=min(REQUESTS, len(clients))) as pool:
        answers = dict(zip(clients, pool.map(answer, clients.values()), strict=True))
    return DaemonAnswers(
        {node: each for node, each in answers.items() if not isinstance(each, PulsedError)},
        {node: each for node, each in answers.items() if isinstance(each, PulsedError)},
    )
