"""The section `attribution`: where the owners of GPUs are read from."""

from __future__ import annotations

from pydantic import Field

from pulsed.config.section import Section
from pulsed.config.values import (
    CommandOrOff,
    Directories,
    Duration,
    LabelNames,
    LabelPatterns,
    ObjectKinds,
    SocketOrOff,
    Switch,
)


class JobsSection(Section):
    """Jobs from mapping directories: a file per GPU, which a job's prolog writes and its epilog removes."""

    directories: Directories = Field(
        default=("/run/pulsed/jobs", "/run/gpustat"),
        description="Directories of this host; the first with a job of a GPU decides: pulsed's own, that of jobstats,"
        " or dcgm-exporter's HPC job mapping. Files are named by index (`3`, on MIG `3.7`) or UUID, and contain job"
        " ids, a job id and a uid, or lines such as `job_id=4711` and `user=ann`.",
    )
    interval: Duration = Field(
        default=1.0, description="Time between two looks; five times as long while a directory does not exist."
    )
    squeue: CommandOrOff = Field(
        default="squeue",
        description="Slurm's `squeue`, which looks up what the file of a job lacks: user, account, partition, name"
        " and array, once. `off`: jobs have what is in their files.",
    )


class KubeletSection(Section):
    """Pods from the kubelet's pod-resources API, which is read every 10 s. Needs root; no API server."""

    socket: SocketOrOff = Field(
        default="/var/lib/kubelet/pod-resources/kubelet.sock",
        description="Socket of the kubelet, or `off`. Without its directory a host has no kubelet, which is normal. In"
        " containers, mount the directory: the socket is replaced when the kubelet restarts.",
    )


class WorkloadsSection(Section):
    """What controls the pods that have GPUs, such as a Deployment, from the Kubernetes API."""

    enabled: Switch = Field(
        default=False,
        description="Name the workloads of pods: the Deployment or Rollout of a ReplicaSet, the CronJob of a Job, else"
        " the pod's controller, else the pod. Without an answer of the API server, new pods have no workload.",
    )
    name_labels: LabelNames = Field(
        default=(),
        description="Labels of pods that name the workload instead, the first that a pod has; the kind stays.",
        examples=[("app.kubernetes.io/name",)],
    )
    kinds: ObjectKinds = Field(
        default=(),
        description="Further kinds of controllers, as `Kind.group`: what controls an object of these is the workload"
        " if it is of these, too. Also needs get of them. LeaderWorkerSet needs StatefulSet.apps, too.",
        examples=[("JobSet.jobset.x-k8s.io", "RayCluster.ray.io", "RayJob.ray.io")],
    )
    pod_labels: LabelPatterns = Field(
        default=(),
        description="Labels of pods that `pulsed_gpu_owner_info` has as `label_NAME`; `*` at the end of a name stands"
        " for any characters. At most 16 a pod.",
        examples=[("team", "app.kubernetes.io/*")],
    )


class AttributionSection(Section):
    """Who has a GPU. Labels of an exporter's page always count; sources of this host come first."""

    kubelet: KubeletSection = Field(default=KubeletSection(), description="Pods from the kubelet.")
    workloads: WorkloadsSection = Field(
        default=WorkloadsSection(),
        description="Workloads of pods, from the Kubernetes API (`kubernetes`). Needs get, list and watch of pods,"
        " and get of ReplicaSets and Jobs.",
    )
    processes: Switch = Field(
        default=False,
        description="Publish the processes of jobs and pods at `/processes`, with the source `nvml` also those that use"
        " a GPU: user, memory, start, memory and activity per GPU, and command line without what looks like a secret."
        " Needs rights only where /proc is mounted with hidepid or the unit has ProtectProc=invisible.",
    )
    process_owners: Switch = Field(
        default=False,
        description="With the source `nvml`: a GPU that has no owner by another source of this host is owned by the"
        " process groups that use it, or their Slurm jobs. Every group is an owner: for workstations and hosts with"
        " few, long programs. In containers, needs hostPID.",
    )
    jobs: JobsSection = Field(default=JobsSection(), description="Jobs from mapping directories.")
