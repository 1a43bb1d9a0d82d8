"""Settings of attribution, where the owners of GPUs are read from, and of the accounts of owners that have ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pulsed.config.settings import Kind, ListKind, Settings, setting
from pulsed.config.values import Duration, Size, Switch, not_empty
from pulsed.durations import DAY
from pulsed.kubernetes.settings import LabelNames, LabelPatterns, ObjectKinds

CommandOrOff = Annotated[str, Kind("command", "the name or path of a program, or off", not_empty, "text")]
SocketOrOff = Annotated[str, Kind("socket", "the path of a Unix socket, or off", not_empty, "text")]
PodPatterns = Annotated[
    tuple[str, ...],
    ListKind("pod", "patterns of namespace/pod such as gpu-operator/*exporter*, one or a list", not_empty, "text"),
]
Directories = Annotated[
    tuple[str, ...], ListKind("directory", "names of directories, one or a list", not_empty, "file")
]


@dataclass(frozen=True, slots=True)
class JobSettings(Settings):
    """Jobs from mapping directories: a file per GPU, which a job's prolog writes and its epilog removes."""

    directories: Directories = setting(
        ("/run/pulsed/jobs", "/run/gpustat"),
        "Directories of this host; the first with a job of a GPU decides. Formats: pulsed's own, jobstats', "
        "dcgm-exporter's HPC job mapping.",
    )
    interval: Duration = setting(1.0, "Time between two reads; ten times as long without the directory.")
    squeue: CommandOrOff = setting(
        "squeue",
        "Slurm's `squeue`, for what a job's file lacks: user, account, partition, name, array, part of a GPU (with "
        "`sinfo`). `off`: not used.",
    )


Numbers = Literal["auto", "index", "device"]


@dataclass(frozen=True, slots=True)
class FileSettings(Settings):
    """The names of the files in mapping directories."""

    numbers: Numbers = setting(
        "auto",
        "Meaning of a file that is named by a number: `index`, as `nvidia-smi` lists GPUs, or `device`, the 3 of "
        "/dev/nvidia3. `auto`: `device` for jobstats' files, otherwise `index`.",
    )


@dataclass(frozen=True, slots=True)
class KubeletSettings(Settings):
    """Pods from the kubelet's pod-resources API, which is read every 10 s. Needs root, and the extra
    `pulsed[kubernetes]`."""

    socket: SocketOrOff = setting(
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        "Socket of the kubelet, or `off`. In containers, mount its directory: a restart replaces the socket.",
    )


@dataclass(frozen=True, slots=True)
class PodWorkloadSettings(Settings):
    """What controls the pods that have GPUs, such as a Deployment, from the Kubernetes API."""

    enabled: Switch = setting(
        False,
        "Name the workloads of pods: the Deployment or Rollout of a ReplicaSet, the CronJob of a Job, "
        "otherwise the controller, otherwise the pod.",
    )
    name_labels: LabelNames = setting(
        (),
        "Labels of pods that name the workload instead; the first that a pod has.",
        example=("app.kubernetes.io/name",),
    )
    kinds: ObjectKinds = setting(
        (),
        "Further kinds of controllers, as `Kind.group`; needs get of them. LeaderWorkerSet also needs "
        "StatefulSet.apps.",
        example=("JobSet.jobset.x-k8s.io", "RayCluster.ray.io", "RayJob.ray.io"),
    )
    pod_labels: LabelPatterns = setting(
        (),
        "Labels of pods that `pulsed_gpu_owner_info` has as `label_NAME`, at most 16 a pod.",
        example=("team", "app.kubernetes.io/*"),
    )


@dataclass(frozen=True, slots=True)
class ProcessSettings(Settings):
    """Published data about processes. Needs rights only with hidepid on /proc or ProtectProc=invisible in the unit."""

    enabled: Switch = setting(
        False, "Publish user, memory, start, program and script, memory and activity per GPU, to everybody."
    )
    arguments: Switch = setting(False, "Publish all arguments as well. Many programs get passwords and tokens by them.")


@dataclass(frozen=True, slots=True)
class AttributionSettings(Settings):
    """Who has a GPU. Labels of an exporter's page always count; sources of this host come first."""

    kubelet: KubeletSettings = setting(
        KubeletSettings(),
        "Pods from the kubelet. With list of ResourceSlices and get of ResourceClaims, devices of DRA have UUIDs.",
    )
    workloads: PodWorkloadSettings = setting(
        PodWorkloadSettings(),
        "Workloads of pods, from the Kubernetes API (`kubernetes`). Needs get, list and watch of pods,"
        " and get of ReplicaSets and Jobs.",
    )
    processes: ProcessSettings = setting(
        ProcessSettings(),
        "The processes of jobs and pods at `/processes`, with the source `nvml` also those that use a GPU.",
    )
    process_owners: Switch = setting(
        False,
        "With `nvml`: process groups own the GPUs that they use, where no other source has an owner. For "
        "workstations. In containers, needs hostPID.",
    )
    jobs: JobSettings = setting(JobSettings(), "Jobs from mapping directories.")
    files: FileSettings = setting(FileSettings(), "The names of files in mapping directories.")
    exporter_pods: PodPatterns = setting(
        (),
        "Pods of exporters, as `namespace/pod` with * for any characters, which own nothing on pages of Prometheus: it "
        "writes them into rows without a pod. Unset: a pod that several GPUs of an `instance`, or all, have as their "
        "only one; the owner of these GPUs is then unknown.",
        example=("gpu-operator/*exporter*",),
    )


KEPT_SECONDS = 90 * DAY
KEPT_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class AccountsSettings(Settings):
    """How long the accounts of owners that have ended are kept in `state_dir`."""

    keep: Duration = setting(KEPT_SECONDS, "How long the account of an ended owner is kept, in whole days.")
    max_bytes: Size = setting(
        KEPT_BYTES, "Size limit of these files, some 4 KB per GPU of an owner; the oldest days are removed."
    )
