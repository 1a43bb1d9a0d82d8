#!/bin/sh
# Slurm's HealthCheckProgram: drains this node while a GPU is critical, and gives it back when that is over.
#
#   slurm.conf:  HealthCheckProgram=/etc/slurm/slurm-health-check.sh
#                HealthCheckInterval=60
#                HealthCheckNodeState=ANY,CYCLE
#
# Only what is critical drains: jobs go on while a GPU is merely warm or waits for a reset. A node that an operator, or
# another check, has drained is left alone, and so is one of which nothing is known: a silent daemon is no broken GPU.
PULSED=${PULSED:-pulsed}
URL=${PULSED_URL:-http://localhost:9401}
NODE=${SLURMD_NODENAME:-$(hostname -s)}
MARK=pulsed:

said=$("$PULSED" health "$URL" --format line --timeout 5s 2>&1)
verdict=$?
reason=$(printf '%s' "$said" | head -n 1 | cut -d '|' -f 1 | cut -c 1-200)
state=$(scontrol show node "$NODE" --oneliner 2>/dev/null)

case $verdict in
2)
    case $state in
    *DRAIN*) ;;
    *) scontrol update NodeName="$NODE" State=DRAIN Reason="$MARK $reason" ;;
    esac
    ;;
0 | 1)
    case $state in
    *DRAIN*"Reason=$MARK"*) scontrol update NodeName="$NODE" State=RESUME ;;
    esac
    ;;
esac
[ "$verdict" -eq 0 ] || logger -t pulsed-health "$reason" 2>/dev/null
exit 0
