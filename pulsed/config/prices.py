"""The section `prices`: of GPU time and energy."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.present.job_numbers import Prices
from pulsed.settings import Factor, Settings, Text, setting


@dataclass(frozen=True, slots=True)
class PricesSection(Settings):
    """Turns GPU hours and energy of jobs into money, in `/jobs` and `pulsed job`."""

    gpu_hour: Factor | None = setting(None, "Price of a GPU hour. Unset: none.", example=2.5)
    kwh: Factor | None = setting(None, "Price of a kWh. Unset: none.", example=0.3)
    currency: Text = setting("EUR", "Currency of the prices.")

    def prices(self) -> Prices:
        """Return the prices of accounts."""
        return Prices(self.gpu_hour, self.kwh, self.currency)
