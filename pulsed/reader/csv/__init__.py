"""The CSV of `pulsed export`, read again."""

from pulsed.reader.csv.records import header_of, problem_of
from pulsed.reader.csv.ticks import CsvTick, csv_ticks, interval_of

__all__ = ["CsvTick", "csv_ticks", "header_of", "interval_of", "problem_of"]
