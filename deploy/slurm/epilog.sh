#!/bin/sh
# Slurm's Epilog: removes a job from the mapping directory of prolog.sh, which describes the installation.
directory=${PULSED_JOBS:-/run/pulsed/jobs}

[ "$SLURM_JOB_ID" ] || exit 0
rm -f "$directory"/*"::$SLURM_JOB_ID" ||
    logger -t pulsed-epilog "job $SLURM_JOB_ID: cannot remove its files in $directory" 2>/dev/null
exit 0
