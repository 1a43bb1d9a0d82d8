"""The NVLinks of one GPU, where the source has them one by one: which are not up and should be, and their counters."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pulsed.compute.products import nvlink_of
from pulsed.model.canonical_tick import Extras
from pulsed.model.health import Nvlink


@dataclass(slots=True, eq=False)
class NvlinkStates:
    """The states of the NVLinks of one GPU over time.

    Attributes:
        up: numbers of the links that have been up since the last reset.
        down: of those that are not up and should be.
        is_used: whether data has been sent over any link since the last reset.
    """

    up: frozenset[int] = frozenset()
    down: tuple[int, ...] = ()
    is_used: bool = False

    def reset(self) -> None:
        """Record a reset of the GPU."""
        self.up, self.is_used = frozenset(), False

    def update(self, extras: Extras | None, model: str, has_mig: bool) -> None:
        """Update which links are not up and should be.

        These are links that have been up, and on products whose links are all wired, the others once one is up. Links
        are off by design on boards without a bridge, in a partition of one GPU, and with MIG.
        """
        if extras is None or extras.nvlink_states is None or has_mig:
            return
        up = frozenset([link for link, state in extras.nvlink_states if state])
        self.up |= up
        wired = nvlink_of(model)
        is_short = wired is not None and 0 < len(up) < wired.links
        down = [link for link, _ in extras.nvlink_states if link not in up and (is_short or link in self.up)]
        self.down = tuple(sorted(down))

    def shown(self, extras: Extras | None) -> tuple[Nvlink, ...]:
        """Return the links that the source has, by number."""
        if extras is None:
            return ()
        states, counters = dict(extras.nvlink_states or ()), dict(extras.nvlink_counters or ())
        links = sorted(states.keys() | counters.keys())
        return tuple([Nvlink(link, states.get(link), link in self.down, counters.get(link, ())) for link in links])


def link_counts(extras: Extras | None, quantities: Collection[str]) -> list[tuple[int, float]] | None:
    """Return the links with their counts, of the largest of these quantities, the worst first; None without any."""
    if extras is None or extras.nvlink_counters is None:
        return None
    kinds = {name.removeprefix("nvlink_").removesuffix("_total") for name in quantities}
    links = [
        (link, max(counts))
        for link, counters in extras.nvlink_counters
        if (counts := [count for kind, count in counters if kind in kinds])
    ]
    return sorted(links, key=lambda link: -link[1]) or None


def links_text(counts: Iterable[tuple[int, float]]) -> str:
    """Return links and their counts in words.

    >>> links_text([(14, 505.0), (3, 2.0), (4, 0.0)])
    'link 14: 505, link 3: 2'
    """
    return ", ".join(f"link {link}: {count:.0f}" for link, count in counts if count)
