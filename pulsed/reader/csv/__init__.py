"""The CSV of `pulsed export`, read again."""
