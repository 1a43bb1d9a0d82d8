"""`helm test`: succeeds once every pod behind the Service delivers data of a GPU, else prints what each of them lacks.

Arguments: host, port, scheme, the seconds after which missing data is a failure, and the prefix of all paths. It runs
in the image, without any package. A daemon that requires a login is only asked whether it is ready.
"""

import json
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request

TIMEOUT = 10


def get(url):
    """Return status and body; whether the certificate names a pod's address is not what is tested."""
    context = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def problem(base):
    """Return what a pod lacks; empty if each source is up and there is a GPU."""
    status, text = get(f"{base}/gpus")
    if status == 401:
        status, text = get(f"{base}/-/ready")
        return "" if status in (200, 401) else text
    if status != 200:
        return f"/gpus answered {status}"
    document = json.loads(text)
    down = [f"source {one['target']} is down: {one['error']}" for one in document["sources"] if not one["up"]]
    return "; ".join(down) or ("" if document["gpus"] else "no source has a GPU")


def main(host, port, scheme, seconds, prefix=""):
    """Print a line per pod; return the exit code."""
    deadline = time.monotonic() + float(seconds)
    while True:
        problems = {}
        try:
            for *_, address in socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM):
                place = f"[{address[0]}]:{port}" if ":" in address[0] else f"{address[0]}:{port}"
                try:
                    problems[place] = problem(f"{scheme}://{place}{prefix}")
                except OSError as error:
                    problems[place] = f"no answer: {error}"
        except socket.gaierror as error:
            problems[host] = f"the Service has no pod: {error}"
        if not any(problems.values()) or time.monotonic() >= deadline:
            break
        time.sleep(1)
    for place, text in problems.items():
        sys.stdout.write(f"{place}: {text or 'pulsed_source_up 1, with GPUs'}\n")
    return int(any(problems.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
