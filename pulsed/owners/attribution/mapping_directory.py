"""Jobs from a mapping directory: a file per device, written by a job's prolog and removed by its epilog.

Sources are pulsed's own directory, jobstats' (/run/gpustat) and dcgm-exporter's HPC job mapping. A look costs a
listing and a stat per file; only changed files are read. It needs no privileges, and sees jobs without a process.

Forms of the files: one job id per line (dcgm-exporter), `JOBID UID` (jobstats), and lines `key=value` (pulsed), in
which `job_id` begins the next job.
"""

from __future__ import annotations

import math
import os
import pwd
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from pulsed.daemon_thread import SharedCall
from pulsed.errors import AttributionError
from pulsed.model.clocks import EPOCH, Unix
from pulsed.model.gpu import device_key
from pulsed.model.job_names import COMPONENT, RAW_ID
from pulsed.model.owner import MAX_SHARERS, Owner, Owners
from pulsed.owners.attribution.slurm_queue import SlurmQueue
from pulsed.owners.attribution.source import NO_CLAIMS, Claims
from pulsed.regular_file import FileTooLarge, open_regular

MAX_FILES = 4096
"""Files beyond this are not read: 16 boards with 7 instances each have 128."""

MAX_BYTES = 64 * 1024
"""A larger file is not a mapping."""

ABSENT_FACTOR = 10.0
"""Factor by which a directory that does not exist is read less often."""

_Signature = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Mapping:
    """A file as last read: its status then, the key of its device, and its jobs."""

    signature: _Signature
    key: str
    jobs: JobFile

    @property
    def modified(self) -> Unix:
        return Unix(self.signature[0] / 1e9)


@dataclass(unsafe_hash=True)
class MappingDirectory:
    """A directory with a file per device.

    File names follow `device_key`; a file named by UUID takes precedence over one named by index. Other names
    are ignored, as are files from before the host started. A job begins when its first file was modified, unless the
    file dates it.

    Args:
        path: of the directory. Without one the source is absent, which is normal.
        every: seconds between two looks.
        boot_time: returns when the host started, in Unix seconds by the clock of now.
        queue: where jobs are looked up whose files lack something.
        numbers: meaning of a file that is named by a number, `index` or `device` (file); `auto`: jobstats' files have
            the numbers of device files, as its exporter does, others indexes.
    """

    path: str
    every: float = 1.0
    boot_time: Callable[[], float] = field(default=lambda: 0.0, compare=False)
    queue: SlurmQueue | None = None
    numbers: Literal["auto", "index", "device"] = "auto"
    # What the last look found; `_begins` has when each job got its first device, by job id, and `_changed` when the
    # newest of its files was modified.
    _files: Mapping[str, _Mapping] = field(default_factory=dict, init=False, compare=False)
    _begins: Mapping[str, Unix] = field(default_factory=dict, init=False, compare=False)
    _changed: Mapping[str, Unix] = field(default_factory=dict, init=False, compare=False)
    _claims: Claims = field(default=NO_CLAIMS, init=False, compare=False)
    _booted: float = field(default=math.inf, init=False, compare=False)
    _is_absent: bool = field(default=False, init=False, compare=False)
    _thread: SharedCall[Claims | None] = field(
        default_factory=lambda: SharedCall("mapping-directory"), init=False, compare=False
    )

    @property
    def name(self) -> str:
        """The path."""
        return self.path

    @property
    def interval(self) -> float:
        """Seconds between two looks: more while there is no directory."""
        return self.every * (ABSENT_FACTOR if self._is_absent else 1.0)

    @property
    def absence(self) -> str:
        """A host without a prolog that writes mappings."""
        return "there is no such directory; for Slurm jobs, install the prolog and epilog of deploy/slurm"

    async def read(self) -> Claims | None:
        """Return the jobs of the files; None if there is no such directory.

        It is complete once it had a job: an empty directory may just never be used.

        Raises:
            AttributionError: the directory cannot be listed.
        """
        claims = await self._thread.call(self.read_files)
        return self.queue.complete(claims, self._changed) if self.queue and claims else claims

    async def ended_jobs(self) -> list[str]:
        """Return the ids of the jobs with files that have ended, as `squeue` shows. Waits for it."""
        return await self.queue.ended(self._changed) if self.queue else []

    async def close(self) -> None:
        """Abandon what is looked up."""
        self._thread.close()
        if self.queue:
            await self.queue.close()

    def read_files(self) -> Claims | None:
        """Do what `read` does, and wait for the files."""
        try:
            with os.scandir(self.path) as entries:
                by_name = {entry.name: entry for _, entry in zip(range(MAX_FILES), entries, strict=False)}
        except FileNotFoundError:
            self._files, self._begins, self._claims, self._is_absent = {}, {}, NO_CLAIMS, True
            return None
        except OSError as error:
            raise AttributionError(
                f"{self.path} cannot be listed: {error.strerror}",
                "let the user of pulsed list the directory, or remove it from attribution.jobs.directories",
            ) from None
        self._is_absent = False
        rejected: dict[str, int] = {}
        files: dict[str, _Mapping] = {}
        for name, entry in sorted(by_name.items()):
            if device_key(name) is None:
                continue
            before = self._files.get(name)
            try:
                unchanged = before is not None and before.signature == _signature(entry.stat(follow_symlinks=False))
                mapping = before if unchanged else _read(entry.path, name, self.numbers)
            except FileNotFoundError:  # removed since the listing
                continue
            except (OSError, ValueError):  # ValueError: not text
                rejected["unreadable_file"] = rejected.get("unreadable_file", 0) + 1
                continue
            if mapping is None or mapping.modified < self._since_boot(mapping.modified):
                continue
            files[name] = mapping
            if not unchanged and mapping.jobs.bad_lines:
                rejected["bad_line"] = rejected.get("bad_line", 0) + mapping.jobs.bad_lines
        if rejected or files != self._files or self._claims is NO_CLAIMS:
            self._begins, self._files = self._begins_of(files), files
            self._changed = _changed(files.values())
            owners = _owners(files.values(), self._begins)
            has_numbers = self.numbers == "auto" and any(_NUMBER.match(key) for key in owners)
            self._claims = Claims(owners, self._claims.is_complete or bool(owners), has_numbers=has_numbers)
        return replace(self._claims, rejected=rejected) if rejected else self._claims

    def _since_boot(self, modified: Unix) -> Unix:
        """Return when the host started, by the earliest clock since pulsed started: it may have been set back."""
        if modified < self._booted:
            self._booted = min(self._booted, self.boot_time())
        return Unix(self._booted)

    def _begins_of(self, files: Mapping[str, _Mapping]) -> Mapping[str, Unix]:
        """Return when each job got its first device.

        A job keeps its begin while one of its files names it: its epilog removes them one by one, and a file is written
        again for other jobs on its device. A job without files in between was requeued, or its id was used again.
        """
        first: dict[str, Unix] = {}
        kept: dict[str, Unix] = {}
        for name, mapping in files.items():
            before = self._files[name].jobs.owners if name in self._files else ()
            stated = {owner.id: owner.begin for owner in before}
            for owner in mapping.jobs.owners:
                dated = mapping.modified if owner.begin is None else owner.begin
                first[owner.id] = min(first.get(owner.id, dated), dated)
                if owner.id in stated and owner.begin == stated[owner.id]:
                    kept[owner.id] = self._begins[owner.id]
        return first | kept


def boot_time() -> Unix:
    """Return when this host started, in Unix seconds; 0 if that is unknown."""
    try:
        text = Path("/proc/stat").read_text(encoding="ascii")
        return Unix(next((float(line.split()[1]) for line in text.splitlines() if line.startswith("btime ")), 0.0))
    except (OSError, ValueError, IndexError):
        return EPOCH


def _signature(status: os.stat_result) -> _Signature:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: str, name: str, numbers: str) -> _Mapping:
    """Read a file. Links are not followed, as others than the prolog may be able to write to the directory."""
    with open(open_regular(path, follow_links=False), "rb") as file:
        signature = _signature(os.fstat(file.fileno()))
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise FileTooLarge(path, MAX_BYTES)
    jobs = parse_job_file(content.decode())
    is_device = numbers == "device" or (numbers == "auto" and jobs.is_of_jobstats)
    if is_device and (match := _NUMBER.match(name)):
        name = f"nvidia{match[1]}{f'/gi{match[2]}' if match[2] else ''}{name[match.end() :]}"
    owners = jobs.owners[: MAX_SHARERS + 1]  # one more, so that these are counted as too many
    return _Mapping(signature, device_key(name) or "", jobs._replace(owners=tuple(map(_named, owners))))


def _named(owner: Owner) -> Owner:
    """Return an owner with its user's name, where only the number is known."""
    return replace(owner, user=_user(owner.user_id)) if owner.user_id.isdecimal() and not owner.user else owner


@lru_cache(maxsize=1024)
def _user(number: str) -> str:
    """Return the login name of a user; the number if it has none. A directory service may take long to answer."""
    try:
        return pwd.getpwuid(int(number)).pw_name
    except (KeyError, OverflowError):
        return number


def _owners(files: Iterable[_Mapping], begins: Mapping[str, Unix]) -> Mapping[str, Owners]:
    """Return the owners by device; several names may mean the same key."""
    by_device: dict[str, dict[str, Owner]] = {}
    for mapping in files:
        for owner in mapping.jobs.owners:
            by_device.setdefault(mapping.key, {}).setdefault(owner.id, replace(owner, begin=begins[owner.id]))
    return {key: tuple(owners.values()) for key, owners in by_device.items()}


def _changed(files: Iterable[_Mapping]) -> Mapping[str, Unix]:
    """Return when the newest file of each job was modified."""
    changed: dict[str, Unix] = {}
    for mapping in files:
        for owner in mapping.jobs.owners:
            changed[owner.id] = max(changed.get(owner.id, EPOCH), mapping.modified)
    return changed


_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+\[\]-]{0,63}")
_NUMBER = re.compile(r"(\d+)(?:[./](\d+))?(?![\w.-])")
_PAIR = re.compile(r"([a-z_]+)=(.*)")


class JobFile(NamedTuple):
    """The jobs of a device, dated where the file has `start`, uids in place of names; its invalid lines; and whether
    it has the form of a file of jobstats."""

    owners: Owners
    bad_lines: int
    is_of_jobstats: bool = False


def parse_job_file(text: str) -> JobFile:
    """Parse the contents of a file.

    Keys are `job_id`, `array` (`4711_7`, which then is the id, and `job_id` a label), `component` (`700+1`, of a
    heterogeneous job), `user`, `uid`, `account`, `partition`, `cluster`, `name`, `start` (Unix seconds), `share` (part
    of the device that the job was given, above 0 to 1); others are ignored.
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
            None if (start := _positive(values.get("start", ""))) is None else Unix(start),
            user=values.get("user", ""),
            user_id=values.get("uid", ""),
            account=values.get("account", ""),
            partition=values.get("partition", ""),
            cluster=values.get("cluster", ""),
            name=values.get("name", ""),
            labels=tuple(
                (label, values[label])
                for label, is_known in ((RAW_ID, "array" in values), (COMPONENT, True))
                if is_known and values.get(label)
            ),
            allocated=part if (part := _positive(values.get("share", ""))) is not None and part <= 1.0 else None,
        )
        jobs.setdefault(job, owner)
    return JobFile(tuple(jobs.values()), bad, not pairs and any(owner.user_id for owner in jobs.values()))


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0.0 else None
