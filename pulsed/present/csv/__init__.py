"""CSV of ticks: pulsed's own columns and KempnerPulse's."""
