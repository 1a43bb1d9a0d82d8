#!/bin/sh
# A custom plugin of Kubernetes' node-problem-detector: exit code 0 no problem, 1 a problem, 2 unknown; the line becomes the
# message. Only crit is a problem of the node. check_pulsed.sh must lie beside it; PULSED_URL and PULSED_CHECKS are as there.
line=$("${0%/*}/check_pulsed.sh")
verdict=$?
printf '%s\n' "$line" | cut -d '|' -f 1
case $verdict in
0 | 1) exit 0 ;;
2) exit 1 ;;
*) exit 2 ;;
esac
