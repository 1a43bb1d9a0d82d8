#!/bin/sh
# Slurm's HealthCheckProgram: drains this node when a GPU needs a repair.
#
#   slurm.conf:  HealthCheckProgram=/etc/slurm/pulsed/slurm-health-check.sh
#                HealthCheckInterval=60
#                HealthCheckNodeState=ANY,CYCLE
#
# check_pulsed.sh must lie beside it. slurmd passes neither arguments nor an environment: change settings in
# slurm-health-check.conf beside it, in the syntax of a shell. These are the defaults:
PULSED_URL=http://localhost:9401
# A node is drained while one of these checks is crit: jobs on it fail or compute wrong results until somebody acts. README.md
# beside this has the reason for each check, also for those that do not drain; info, warn and hot never drain.
DRAIN_CHECKS=gpu_lost,recovery_action,xid_critical,ecc_uncorrectable
DRAIN_CHECKS=$DRAIN_CHECKS,memory_unrepairable,row_remap_failed,row_remap_growth,retired_pages
# With yes, a node that this script drained is resumed once the node was restarted or all of its GPUs were reset, and the
# checks that drained it are ok. A node that anything else drained is left alone.
RESUME=no

set -a # for PATH and SLURM_CONF, if they are among the settings
# shellcheck source=/dev/null
[ ! -r "${0%.sh}.conf" ] || . "${0%.sh}.conf"
set +a
node=${SLURMD_NODENAME:-$(hostname -s)}

check() {
    line=$(PULSED_URL="$PULSED_URL" PULSED_CHECKS="$1" "${0%/*}/check_pulsed.sh") # not as arguments, which ps shows
    verdict=$?
}

# The reason is `pulsed TIME: PROBLEMS`, so that it needs no file.
drain() {
    problems=$(printf '%s' "${line#*- }" | cut -d '|' -f 1 | cut -c 1-500)
    scontrol update NodeName="$node" State=DRAIN Reason="pulsed $(date +%s): $problems"
}

resume_if_repaired() {
    reason=${state#*Reason=pulsed }
    drained_at=${reason%%:*}
    raised=$(printf '%s' "$reason" | grep -o 'crit: [a-z0-9_]*' | cut -c 7- | sort -u | paste -s -d , -)
    [ "$raised" ] || return
    check "$raised"
    case $line in *" last_reset="*) reset_at=${line##* last_reset=} ;; *) reset_at=0 ;; esac
    started_at=$(sed -n 's/^btime //p' /proc/stat)
    if [ "$verdict" -eq 0 ] && { [ "$reset_at" -gt "$drained_at" ] || [ "$started_at" -gt "$drained_at" ]; }; then
        scontrol update NodeName="$node" State=RESUME
    fi
}

check "$DRAIN_CHECKS"
case $verdict in
0) ;;
3) # no evidence, so nothing is drained, and nobody would notice
    line="the health of the GPUs is unknown, so a sick node is not drained: $line"
    logger -p daemon.err -t pulsed-health "$line" 2>/dev/null
    printf '%s\n' "$line" >&2
    ;;
*) logger -t pulsed-health "$line" 2>/dev/null ;;
esac
state=$(scontrol show node "$node" --oneliner)
case $verdict/$state in
*DRAIN*" Reason=pulsed "[0-9]*:*) [ "$RESUME" != yes ] || [ "$verdict" -eq 2 ] || resume_if_repaired ;;
2/*DRAIN*) ;;
2/*) drain ;;
esac
exit 0
