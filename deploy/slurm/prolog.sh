#!/bin/sh
# Slurm's Prolog: writes the GPUs of a job into a mapping directory of pulsed, from which epilog.sh removes them.
#
#   slurm.conf:  Prolog=/etc/slurm/pulsed/prolog.sh
#                Epilog=/etc/slurm/pulsed/epilog.sh
#                PrologFlags=Alloc
#
# It always exits with 0, because slurmd drains a node whose prolog fails. Errors are in the system's log.

# The directory, one of attribution.jobs.directories; the same in epilog.sh.
directory=${PULSED_JOBS:-/run/pulsed/jobs}
# Empty: the numbers of GPUs are their indexes in nvidia-smi, as with AutoDetect=nvml. `nvidia`: they are those of
# /dev/nvidia0, /dev/nvidia1, ..., as where gres.conf has `File=` without AutoDetect. `auto`: by gres.conf.
prefix=${PULSED_DEVICE_PREFIX-auto}
if [ "$prefix" = auto ]; then
    prefix=
    slurm_conf=${SLURM_CONF:-/etc/slurm/slurm.conf}
    for gres in "${slurm_conf%/*}/gres.conf" /run/slurm/conf/gres.conf; do
        [ -r "$gres" ] || continue
        if ! grep -qi '^[^#]*autodetect *= *nv' "$gres" && grep -qi '^[^#]*file *= */dev/nvidia' "$gres"; then
            prefix=nvidia
        fi
        break
    done
fi

fail() {
    logger -t pulsed-prolog "job $SLURM_JOB_ID: $1" 2>/dev/null || echo "pulsed-prolog: job $SLURM_JOB_ID: $1" >&2
}

# A line of the file; texts that users choose cannot add further lines.
line() {
    [ -z "$2" ] || printf '%s=%s\n' "$1" "$(printf %s "$2" | tr '[:cntrl:]' ' ')"
}

# shellcheck disable=SC2153 # slurmd sets them
job() {
    line job_id "$SLURM_JOB_ID"
    line array "${SLURM_ARRAY_TASK_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}"
    line component "${SLURM_HET_JOB_OFFSET:+$SLURM_HET_JOB_ID+$SLURM_HET_JOB_OFFSET}"
    line uid "$SLURM_JOB_UID"
    line user "$SLURM_JOB_USER"
    line account "$SLURM_JOB_ACCOUNT"
    line partition "$SLURM_JOB_PARTITION"
    line cluster "$SLURM_CLUSTER_NAME"
    line name "$SLURM_JOB_NAME"
    line start "$SLURM_JOB_START_TIME"
}

# UUIDs, where Slurm has them (MIG, and everything from 25.11 on), are the only names of MIG instances.
case ,$CUDA_VISIBLE_DEVICES in
*,GPU-* | *,MIG-*) devices=$CUDA_VISIBLE_DEVICES prefix= ;;
*) devices=$SLURM_JOB_GPUS ;;
esac
[ "$devices" ] || exit 0
[ "$SLURM_JOB_ID" ] || { fail "no SLURM_JOB_ID: this is not run by slurmd"; exit 0; }

umask 022
mkdir -p "$directory" 2>/dev/null || { fail "cannot make $directory"; exit 0; }
text=$(job)
set -f
IFS=,
for device in $devices; do
    # Jobs that share a GPU have a file each. The name of the unfinished file is that of no device.
    name="$prefix$device::$SLURM_JOB_ID"
    { printf '%s\n' "$text" >"$directory/.$name" && mv -f "$directory/.$name" "$directory/$name"; } 2>/dev/null ||
        { rm -f "$directory/.$name"; fail "cannot write $directory/$name"; }
done
exit 0
