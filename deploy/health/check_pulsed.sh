#!/bin/sh
# Nagios plugin: prints the health of the GPUs of a pulsed as one line. Exit code 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
#
#   check_pulsed.sh [URL [CHECKS]]
#
# URL: of the daemon, else $PULSED_URL, else http://localhost:9401; a login in it is used and never printed.
# CHECKS: the checks that count (docs/health.md), separated by commas, else $PULSED_CHECKS, else all.
# PULSED_USERNAME, PULSED_PASSWORD_FILE: a login that no list of processes shows, instead of one in the URL.
# PULSED_CA_FILE: certificates to trust, for https. PULSED_CERT_FILE, PULSED_KEY_FILE: the certificate of this client and its
# key, with curl or GNU wget. PULSED_TIMEOUT: in seconds, 5.
# Needs curl, wget or, for plain http, bash. BusyBox' wget is used if there is nothing else: it shows a login in the URL.
url=${1:-${PULSED_URL:-http://localhost:9401}}
checks=${2:-${PULSED_CHECKS:-}}
timeout=${PULSED_TIMEOUT:-5}
case $url in *://*) ;; *) url=http://$url ;; esac
place=${url#*://}
place=${place##*@}

# Print a text as a URL may have it.
encoded() {
    printf %s "$1" | od -An -v -tx1 | tr -d '\n' | tr ' ' %
}

# Secrets are passed on standard input or in the environment: arguments are in the list of processes.
fetch() {
    if [ "$PULSED_PASSWORD_FILE" ]; then
        password=$(cat "$PULSED_PASSWORD_FILE") || return
        url=${url%%://*}://$(encoded "$PULSED_USERNAME"):$(encoded "$password")@$place
    fi
    request="${url%/}/health/gpus?format=line&checks=$checks"
    if command -v curl >/dev/null; then
        printf 'url = "%s"\n' "$request" |
            curl --silent --show-error --max-time "$timeout" ${PULSED_CA_FILE:+--cacert "$PULSED_CA_FILE"} \
                ${PULSED_CERT_FILE:+--cert "$PULSED_CERT_FILE"} ${PULSED_KEY_FILE:+--key "$PULSED_KEY_FILE"} --config -
    elif wget --version >/dev/null 2>&1; then # GNU's
        export LC_ALL=C.UTF-8 # in the locale C, it decodes URLs with bytes above 127 twice
        printf '%s\n' "$request" |
            limited wget -q --content-on-error ${PULSED_CA_FILE:+--ca-certificate="$PULSED_CA_FILE"} \
                ${PULSED_CERT_FILE:+--certificate="$PULSED_CERT_FILE"} \
                ${PULSED_KEY_FILE:+--private-key="$PULSED_KEY_FILE"} -O - --input-file=-
    elif command -v bash >/dev/null; then
        export request
        limited bash -c "$over_tcp"
    elif [ "$PULSED_PASSWORD_FILE" ]; then
        echo "PULSED_PASSWORD_FILE needs curl, GNU wget or bash"
    elif command -v wget >/dev/null; then
        limited wget -q ${PULSED_CA_FILE:+--ca-certificate="$PULSED_CA_FILE"} -O - "$request"
    else
        echo "install curl, wget or bash"
    fi
}

# Not by wget's own -T, with which BusyBox 1.35 crashes.
limited() {
    if command -v timeout >/dev/null; then timeout "$timeout" "$@"; else "$@"; fi
}

# For bash: an HTTP/1.0 request.
# shellcheck disable=SC2016
over_tcp='
    case $request in https:*) echo "https needs curl or wget"; exit 1 ;; esac
    place=${request#*://} path=/${request#*://*/} login=
    place=${place%%/*}
    case $place in *@*) login=${place%@*} place=${place##*@} ;; esac
    host=$place port=80
    case ${place##*]} in *:*) host=${place%:*} port=${place##*:} ;; esac
    host=${host#[}
    printf -v login %b "${login//%/\\x}"
    exec 3<>"/dev/tcp/${host%]}/$port" || exit 1
    printf "GET %s HTTP/1.0\r\nHost: %s\r\n" "$path" "$place" >&3
    [ -z "$login" ] || printf "Authorization: Basic %s\r\n" "$(printf %s "$login" | base64 -w0)" >&3
    printf "\r\n" >&3
    IFS= read -r status <&3 || exit 1
    while IFS= read -r line <&3 && [ "${#line}" -gt 1 ]; do :; done # headers; an empty one is a carriage return
    case $status in *" 200 "*) cat <&3 ;; *) printf "%s" "${status%?}" ;; esac
'

# A daemon that is too busy answers 503: it is asked again twice.
for _ in 1 2 3; do
    answer=$(fetch 2>&1 | head -n 1 | cut -c 1-2000)
    case $answer in
    *"try again"* | *" 503"*) sleep 2 2>/dev/null ;;
    *) break ;;
    esac
done
case $answer in
"PULSED OK"*) code=0 ;;
"PULSED WARNING"*) code=1 ;;
"PULSED CRITICAL"*) code=2 ;;
"PULSED UNKNOWN"*) code=3 ;;
*)
    code=3
    answer="PULSED UNKNOWN - $place: ${answer:-no answer}"
    ;;
esac
printf '%s\n' "$answer"
exit "$code"
