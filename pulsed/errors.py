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
    """A GPU cannot be forgotten: it is present, or several GPUs have its name."""


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

    def __init_subclass__(cls, reason: str = "") -> None:
        cls.reason = reason or cls.reason


class ScrapeFailed(SourceError, reason="scrape_failed"):
    """An exporter did not answer with a page: refused, timed out, HTTP status, TLS, too large."""


class BadPage(SourceError, reason="bad_page"):
    """An exporter answered, but with nothing that can be read: an HTML page, an empty body."""


class NoGpus(SourceError, reason="no_gpus"):
    """The source answers and lists no GPU."""


class ExporterNotFound(SourceError, reason="exporter_not_found"):
    """Discovery has found no exporter."""


class OtherNode(SourceError, reason="other_node"):
    """The exporter of this node returned the page of another node."""


class DuplicateGpu(SourceError, reason="duplicate_gpu"):
    """Several exporters of this node show the same GPU."""


class TooManyGpus(SourceError, reason="too_many_gpus"):
    """A source has more GPUs and MIG instances than `source.max_gpus`.

    Attributes:
        limit: the value of that key.
    """

    def __init__(self, limit: int, target: str) -> None:
        self.limit = limit
        super().__init__(
            f"{target} has more than {limit} GPUs and MIG instances", "Check what it is, or increase source.max_gpus"
        )


class BadCapture(SourceError, reason="bad_capture"):
    """A file given to replay is not a capture that pulsed can read."""


class CommandMissing(SourceError, reason="dcgmi_missing"):
    """There is no `dcgmi` to run, or it cannot be run."""


class HostEngineUnavailable(SourceError, reason="engine_unavailable"):
    """DCGM's host engine does not answer, or has no GPUs."""


class HostEngineHung(SourceError, reason="engine_hung"):
    """DCGM's host engine accepts connections and answers nothing."""


class StreamBroke(SourceError, reason="stream_broke"):
    """A stream of samples ended before its time: the process exited, closed its output, or had other data."""


class StreamHung(SourceError, reason="hung"):
    """A stream of samples delivers nothing any more, or nothing that can be read; its process was killed."""


class WatchRefused(SourceError, reason="watch_refused"):
    """The host engine or `dcgmi` refused to watch a field."""


class FieldRefused(WatchRefused, reason="field_refused"):
    """At least one of the fields is not available here.

    Attributes:
        field: the id of that field, where the refusal names it.
    """

    def __init__(self, message: str, remedy: str = "", field: int | None = None) -> None:
        super().__init__(message, remedy)
        self.field = field


class NotPermitted(WatchRefused, reason="not_permitted"):
    """Some of the fields need a host engine with more rights."""


class ProfilingUnavailable(WatchRefused, reason="profiling_unavailable"):
    """This GPU, or this engine, has no profiling counters."""


class ProfilingHeld(WatchRefused, reason="profiling_held"):
    """Another process holds the profiling hardware; it may let go."""


class TooManyCounters(WatchRefused, reason="profiling_multi_pass"):
    """The hardware cannot count this number of profiling fields at the same time."""


class NvmlMissing(SourceError, reason="nvml_missing"):
    """nvidia-ml-py or NVIDIA's driver library is not installed."""


class DriverUnavailable(SourceError, reason="driver_unavailable"):
    """NVIDIA's kernel driver is not loaded."""


class DriverMismatch(SourceError, reason="driver_mismatch"):
    """NVIDIA's kernel driver and its library have different versions, as after an upgrade."""


class DriverHung(SourceError, reason="driver_hung"):
    """NVIDIA's driver does not answer a call."""


class DriverReleased(SourceError, reason="driver_released"):
    """The driver is released on request, as for a reset of a GPU."""


class GpuLost(SourceError, reason="gpu_lost"):
    """No GPU answers: lost, or a reset is required."""


class NvmlRefused(SourceError, reason="no_permission"):
    """The driver refuses access to all GPUs."""


class NvmlError(SourceError, reason="nvml_error"):
    """NVML failed in another way."""


class NoSourceWorks(SourceError, reason="no_source"):
    """The source `auto` found none that delivers; the message has the error of each."""


class InternalError(SourceError, reason="internal"):
    """A tick met a mistake of pulsed itself."""


class SourceEnded(SourceError, reason="ended"):
    """A finite source (a replay without loop) has no more ticks. Not a failure."""


class AttributionError(PulsedError):
    """An attribution source could not be read: owners are unknown, readings are not affected.

    Attributes:
        reason: the label value of `pulsed_attribution_errors_total`.
    """

    reason: ClassVar[str] = "unreadable"

    def __init_subclass__(cls, reason: str = "") -> None:
        cls.reason = reason or cls.reason


class ProcessesHidden(AttributionError, reason="processes_hidden"):
    """The driver lists processes of this host that pulsed cannot see."""


class AttributionTimeout(AttributionError, reason="timeout"):
    """An attribution source did not answer in time."""


MAX_WORD_LENGTH = 64
"""No known word is longer; comparing takes the product of both lengths."""


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Return the known word that was probably meant; None if no word is similar. Case does not count.

    In words with dots (`source.interval`) a word of the same section goes before the same name in another section.
    """
    from difflib import get_close_matches  # only errors need it

    if len(word) > MAX_WORD_LENGTH:
        return None
    by_lower = {each.lower(): each for each in words}
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


def did_you_mean(word: str, words: Iterable[str], otherwise: str) -> str:
    """Return the question `did you mean ...?`, or `otherwise` if no known word is like this one."""
    near = nearest(word, words)
    return f"did you mean {near}?" if near else otherwise
