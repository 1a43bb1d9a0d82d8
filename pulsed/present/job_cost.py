"""What a job costs, by prices of GPU time and energy."""

from __future__ import annotations

from typing import Any, NamedTuple

from pulsed.present.job_counters import Account, joules

JOULES_PER_KWH = 3.6e6


class Prices(NamedTuple):
    """Prices in one currency; None: GPU time, or energy, has no price."""

    gpu_hour: float | None = None
    kwh: float | None = None
    currency: str = "EUR"


NO_PRICES = Prices()


def cost_of(total: Account, prices: Prices) -> dict[str, Any] | None:
    """Return the cost of observed GPU time, of shared GPUs an equal share, and of energy; None without prices.

    `energy`, and then `total`, is None where the energy is unknown and has a price.
    """
    if prices.gpu_hour is None and prices.kwh is None:
        return None
    used = joules(total)
    time = (prices.gpu_hour or 0.0) * total["gpu_seconds"] / 3600.0
    energy = 0.0 if prices.kwh is None else None if used is None else prices.kwh * used / JOULES_PER_KWH
    return {
        "currency": prices.currency,
        "per_gpu_hour": prices.gpu_hour,
        "per_kwh": prices.kwh,
        "gpu_time": time,
        "energy": energy,
        "total": None if energy is None else time + energy,
    }


def prices_of(account: Account) -> Prices:
    """Return the prices that the cost of an account was calculated with."""
    cost = account["cost"]
    return NO_PRICES if cost is None else Prices(cost["per_gpu_hour"], cost["per_kwh"], cost["currency"])
