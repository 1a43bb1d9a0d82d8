"""The contents of the files in mapping directories, which name the jobs of one device.

Forms: one job id per line (dcgm-exporter), `JOBID UID` (jobstats), and lines `key=value` (pulsed), in which `job_id`
begins the next job. This module does no I/O.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from pulsed.model.owner import Owner, Owners

_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+\[\]-]{0,63}")
_PAIR = re.compile(r"([a-z_]+)=(.*)")


class JobFile(NamedTuple):
    """The jobs of a device.

    Attributes:
        owners: dated only where the file has `start`; uids are not yet names.
        bad_lines: lines that are not in one of the forms.
    """

    owners: Owners
    bad_lines: int


def parse_job_file(text: str) -> JobFile:
    """Parse the contents of a file.

    Keys are `job_id`, `array` (`4711_7`, which then is the id, and `job_id` a label), `user`, `uid`, `account`,
    `partition`, `cluster`, `name`, `start` (Unix seconds); others are ignored.
    """
    jobs: dict[str, Owner] = {}
    pairs: list[dict[str, str]] = []
    bad = 0
    for line in filter(None, map(str.strip, text.split("\n"))):  # splitlines would split at more characters
        if match := _PAIR.fullmatch(line):
            if match[1] == "job_id" or not pairs:
                pairs.append({})
            pairs[-1][match[1]] = match[2].strip()
            continue
        job, *rest = line.split()
        if not _JOB_ID.fullmatch(job) or len(rest) > 1 or not all(map(str.isdecimal, rest)):
            bad += 1
            continue
        jobs.setdefault(job, Owner("slurm_job", job, user_id=rest[0] if rest else ""))
    for values in pairs:
        job = values.get("array") or values.get("job_id", "")
        if not _JOB_ID.fullmatch(job):
            bad += 1
            continue
        owner = Owner(
            "slurm_job",
            job,
            _seconds(values.get("start", "")),
            user=values.get("user", ""),
            user_id=values.get("uid", ""),
            account=values.get("account", ""),
            partition=values.get("partition", ""),
            cluster=values.get("cluster", ""),
            name=values.get("name", ""),
            labels=(("job_id", values["job_id"]),) if "array" in values and "job_id" in values else (),
        )
        jobs.setdefault(job, owner)
    return JobFile(tuple(jobs.values()), bad)


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0.0 else None
