"""The section `prices`: of GPU time and energy."""

from __future__ import annotations

from pydantic import Field

from pulsed.config.section import Section
from pulsed.config.values import Factor, Text
from pulsed.present.job_numbers import Prices


class PricesSection(Section):
    """Turns GPU hours and energy of jobs into money, in `/jobs` and `pulsed job`."""

    gpu_hour: Factor | None = Field(default=None, description="Price of a GPU hour. Unset: none.", examples=[2.5])
    kwh: Factor | None = Field(default=None, description="Price of a kWh. Unset: none.", examples=[0.3])
    currency: Text = Field(default="EUR", description="Currency of the prices.")

    def prices(self) -> Prices:
        """Return the prices of accounts."""
        return Prices(self.gpu_hour, self.kwh, self.currency)
