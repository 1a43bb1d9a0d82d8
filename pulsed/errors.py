"""The errors that pulsed raises deliberately.

Each names what happened, to what, and the remedy, for a misspelt word the nearest one. Must not import any layer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class PulsedError(Exception):
    """Base of all deliberate errors.

    Attributes:
        remedy: what the reader of the message can do about it, one sentence.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy[:1].upper() + remedy[1:]

    def __str__(self) -> str:
        message = super().__str__()
        end = "" if message.endswith("?") else "."
        return f"{message}{end} {self.remedy}" if self.remedy else message


class ConfigError(PulsedError):
    """A setting is wrong: unknown key, bad value, unreadable file (exit code 2)."""

    exit_code = 2


class UsageError(PulsedError):
    """The command line is wrong (exit code 2)."""

    exit_code = 2


class HealthUsageError(UsageError):
    """The command line of `pulsed health` is wrong: unknown to a monitor, for which 2 is critical (exit code 3)."""

    exit_code = 3


class GpuNotFound(PulsedError):
    """A GPU that `gpus` names is not there."""


class GpuNotForgettable(PulsedError):
    """A GPU cannot be forgotten: it is present, or its name is that of several."""


class NumberUnknown(PulsedError):
    """A number to scale on cannot be determined from current values."""


class NothingRead(PulsedError):
    """No source delivered a tick."""


class ListenError(PulsedError):
    """A listen address cannot be taken: port in use, no permission, unknown host."""


class SourceError(PulsedError):
    """A source could not deliver a tick; the daemon counts it by `reason` and tries again.

    Attributes:
        reason: the label value of `pulsed_source_errors_total`, one word per kind of error.
    """

    reason: ClassVar[str] = "other"


class ScrapeFailed(SourceError):
    """An exporter did not answer with a page: refused, timed out, HTTP status, TLS, too large."""

    reason = "scrape_failed"


class BadPage(SourceError):
    """An exporter answered, but with nothing that can be read: an HTML page, an empty body."""

    reason = "bad_page"


class TargetListError(PulsedError):
    """A list of targets cannot be read."""


class ExporterNotFound(SourceError):
    """Discovery has found no exporter."""

    reason = "exporter_not_found"


class OtherNode(SourceError):
    """The page of this node's exporter is that of another node."""

    reason = "other_node"


class DuplicateGpu(SourceError):
    """Several exporters of this node show the same GPU."""

    reason = "duplicate_gpu"


class TooManyGpus(SourceError):
    """A source has more GPUs and MIG instances than `source.max_gpus`.

    Attributes:
        limit: the value of that key.
    """

    reason = "too_many_gpus"

    def __init__(self, limit: int, target: str) -> None:
        self.limit = limit
        super().__init__(
            f"{target} has more than {limit} GPUs and MIG instances", "Check what it is, or increase source.max_gpus"
        )


class BadCapture(SourceError):
    """A file given to replay is not a capture that pulsed can read."""

    reason = "bad_capture"


class CommandMissing(SourceError):
    """There is no `dcgmi` to run, or it cannot be run."""

    reason = "dcgmi_missing"


class HostEngineUnavailable(SourceError):
    """DCGM's host engine does not answer, or has no GPUs."""

    reason = "engine_unavailable"


class StreamBroke(SourceError):
    """A stream of samples ended before its time: the process exited, closed its output, or had other data."""

    reason = "stream_broke"


class StreamHung(SourceError):
    """A stream of samples delivers nothing any more, or nothing that can be read; its process was killed."""

    reason = "hung"


class WatchRefused(SourceError):
    """The host engine or `dcgmi` refused to watch a field."""

    reason = "watch_refused"


class FieldRefused(WatchRefused):
    """At least one of the fields is not available here.

    Attributes:
        field: the id of that field, where the refusal names it.
    """

    reason = "field_refused"

    def __init__(self, message: str, remedy: str = "", field: int | None = None) -> None:
        super().__init__(message, remedy)
        self.field = field


class NotPermitted(WatchRefused):
    """Some of the fields need a host engine with more rights."""

    reason = "not_permitted"


class ProfilingUnavailable(WatchRefused):
    """This GPU, or this engine, has no profiling counters."""

    reason = "profiling_unavailable"


class ProfilingHeld(WatchRefused):
    """Another process holds the profiling hardware; it may let go."""

    reason = "profiling_held"


class TooManyCounters(WatchRefused):
    """The hardware cannot count so many profiling fields at the same time."""

    reason = "profiling_multi_pass"


class NvmlMissing(SourceError):
    """nvidia-ml-py or NVIDIA's driver library is not installed."""

    reason = "nvml_missing"


class DriverUnavailable(SourceError):
    """NVIDIA's kernel driver is not loaded."""

    reason = "driver_unavailable"


class DriverMismatch(SourceError):
    """NVIDIA's kernel driver and its library have different versions, as after an upgrade."""

    reason = "driver_mismatch"


class DriverHung(SourceError):
    """NVIDIA's driver does not answer a call."""

    reason = "driver_hung"


class DriverReleased(SourceError):
    """The driver is released on request, as for a reset of a GPU."""

    reason = "driver_released"


class GpuLost(SourceError):
    """No GPU answers: lost, or a reset is required."""

    reason = "gpu_lost"


class NvmlRefused(SourceError):
    """The driver refuses access to all GPUs."""

    reason = "no_permission"


class NvmlError(SourceError):
    """NVML failed in another way."""

    reason = "nvml_error"


class NoSourceWorks(SourceError):
    """The source `auto` found none that delivers; the message has the error of each."""

    reason = "no_source"


class SourceEnded(SourceError):
    """A finite source (a replay without loop) has no more ticks. Not a failure."""

    reason = "ended"


class AttributionError(PulsedError):
    """An attribution source could not be read: owners are unknown, readings are not affected.

    Attributes:
        reason: the label value of `pulsed_attribution_errors_total`.
    """

    reason: ClassVar[str] = "unreadable"


class ProcessesHidden(AttributionError):
    """The driver lists processes of this host that pulsed cannot see."""

    reason = "processes_hidden"


class AttributionTimeout(AttributionError):
    """An attribution source did not answer in time."""

    reason = "timeout"


LONGEST_WORD = 64
"""No known word is longer; comparing takes the product of both lengths."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant; None if there is none like it. Case does not count.

    In words with dots (`source.interval`) a word of the same section goes before the same name in another section.
    """
    from difflib import get_close_matches  # only errors need it

    if len(word) > LONGEST_WORD:
        return None
    by_lower = {each.lower(): each for each in known}
    word = word.lower()
    section, _, name = word.rpartition(".")
    siblings = {each.rpartition(".")[2]: each for each in by_lower if each.rpartition(".")[0] == section}
    for matches in (
        get_close_matches(name, siblings, 1, 0.7),
        [each for each in by_lower if each.rpartition(".")[2] == name],
        get_close_matches(word, by_lower, 1, 0.7),
        get_close_matches(name, siblings, 1, 0.5),
    ):
        if matches:
            return by_lower[siblings.get(matches[0], matches[0])]
    return None


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the question `did you mean ...?`, or `otherwise` if no known word is like this one."""
    near = nearest(word, known)
    return f"did you mean {near}?" if near else otherwise
