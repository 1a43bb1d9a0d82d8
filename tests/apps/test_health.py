"""`pulsed health` against a real HTTP server with answers that the API's own code made."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.health import NOT_EVALUATED, CheckState, Health, State
from pulsed.model.target_store import TargetStore
from pulsed.present.api.documents import health_document
from tests.present.boards import SETTLED, SICK, Gpu, gpu, mig, store_of, target, tick
from tests.support.certificates import make_authority
from tests.support.daemon import free_port, pulsed
from tests.support.http_servers import QuietHandler, running


def judged(state: State) -> Health:
    check = CheckState(
        "temp_gpu", state, Unix(1767225600.0), None, "95 °C", (("temperature_celsius", 95.0),), "Cool it", True
    )
    return Health(state, 1.0, (check,))


def with_health(number: int, health: Health) -> Gpu:
    return gpu(number, result=SETTLED._replace(health=health))


class Server(HTTPServer):
    answer: Any = ()
    status = 200
    login = ""


class Handler(QuietHandler):
    server: Server

    def do_GET(self) -> None:
        right = not self.server.login or self.headers.get("Authorization") == (
            f"Basic {base64.b64encode(self.server.login.encode()).decode()}"
        )
        found = self.path == "/health/gpus"
        self.send_response(self.server.status if found and right else 404 if right else 401)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.answer).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    with running(made):
        yield made


def serve(server: Server, *gpus: Gpu) -> str:
    server.answer = health_document(store_of(target("a", tick(gpus))), Monotonic(100.25))
    return f"http://127.0.0.1:{server.server_port}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["ok", "ok"], 0),
        (["ok", "info"], 0),
        (["ok", "warn"], 1),
        (["hot", "ok"], 1),
        (["warn", "crit"], 2),
        (["crit", "unknown"], 2),
        (["ok", "unknown"], 3),
        (["warn", "unknown"], 1),
        ([], 3),
    ],
)
def test_the_exit_code_is_that_of_the_worst(server: Server, states: list[State], code: int) -> None:
    gpus = [with_health(number, judged(state)) for number, state in enumerate(states)]
    done = pulsed("health", serve(server, *gpus))
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(("OK", "WARNING", "CRITICAL", "UNKNOWN")[code])


def test_the_table_says_what_and_since_when_and_what_to_do(server: Server) -> None:
    url = serve(server, with_health(0, judged("ok")), with_health(1, SICK), mig(2, 7))
    assert pulsed("health", url).stdout.splitlines() == [
        "WARNING: 1 warn, 1 ok 1/1, 1 unknown (50 % of the checks have data)",
        "",
        "node1 GPU 1  WARN  row_remap_pending  since 2025-12-31T23:59:55.100Z",
        "  A memory repair waits for a reset",
        "  -> Reset the GPU when the current jobs finish",
        "",
        "node1 GPU 0  ok 1/1  (100 % of the checks have data)",
        "node1 GPU 1  warn  (50 % of the checks have data)",
        "node1 GPU 2:7  unknown  (0 % of the checks have data)",
    ]


def test_the_line_is_for_nagios(server: Server) -> None:
    url = serve(server, with_health(0, judged("hot")), with_health(1, judged("ok")))
    assert pulsed("health", url, "--format", "line").stdout == (
        "PULSED WARNING - node1 GPU 0 hot: temp_gpu; 1 hot, 1 ok 1/1 (100 % of the checks have data)"
        " | gpus=2 crit=0 hot=1 warn=0 info=0 ok=1 unknown=0 coverage=100%\n"
    )


def test_the_line_has_the_time_since_which_all_gpus_were_reset(server: Server) -> None:
    first, second = (replace(judged("ok"), last_reset=Unix(1767225600.0 + hour)) for hour in (7200.5, 3600.5))
    url = serve(server, with_health(0, first), with_health(1, second))
    assert pulsed("health", url, "--format", "line").stdout.endswith(" coverage=100% last_reset=1767229200\n")
    url = serve(server, with_health(0, first), with_health(1, judged("ok")))
    assert "last_reset" not in pulsed("health", url, "--format", "line").stdout


@pytest.mark.parametrize(("state", "code"), [("ok", 3), ("warn", 1), ("crit", 2)])
def test_a_target_without_data_is_unknown(server: Server, state: State, code: int) -> None:
    silent = replace(target("b"), error="cannot connect")
    server.answer = health_document(
        TargetStore("here", [target("a", tick([with_health(0, judged(state))])), silent]), Monotonic(100.25)
    )
    done = pulsed("health", f"http://127.0.0.1:{server.server_port}")
    assert done.returncode == code
    known = " 1/1" if state == "ok" else ""
    assert f"1 {state}{known}, 1 unknown (50 % of the checks have data; 1 without data)" in done.stdout
    assert "b  UNKNOWN  telemetry\n  No GPU has been read: cannot connect\n" in done.stdout
    line = pulsed("health", f"http://127.0.0.1:{server.server_port}", "--format", "line").stdout
    assert "b unknown: telemetry" in line
    assert "gpus=1 " in line
    assert "unknown=1 coverage=50%" in line


def test_a_stale_gpu_is_not_ok(server: Server) -> None:
    made = target("a", tick([with_health(0, judged("ok"))]), arrived=95.0)
    made.stale_after = 2.0
    server.answer = health_document(store_of(made), Monotonic(100.25))
    assert (server.answer[0]["stale"], server.answer[0]["state"]) == (True, "unknown")
    done = pulsed("health", f"http://127.0.0.1:{server.server_port}")
    assert done.returncode == 3
    assert done.stdout.startswith("UNKNOWN: 2 unknown (0 % of the checks have data; 1 without data)")
    assert "a  UNKNOWN  telemetry\n  No data from a: it does not answer\n" in done.stdout


def test_a_fleet_is_as_well_as_its_daemons(server: Server) -> None:
    url, silent = serve(server, with_health(0, judged("ok"))), f"http://user:secret@127.0.0.1:{free_port()}"
    assert pulsed("health", url, url).returncode == 0
    done = pulsed("health", url, silent)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert done.stderr.startswith("pulsed: the list of processes shows the login of http://***@127.0.0.1:")
    assert done.stdout.startswith("UNKNOWN: 1 ok 1/1, 1 unknown (50 % of the checks have data; 1 without data)")
    assert f"{silent.replace('user:secret@', '')}  UNKNOWN  daemon" in done.stdout
    assert "secret" not in done.stdout
    serve(server, with_health(0, judged("crit")))
    assert pulsed("health", silent, url).returncode == 2


def test_json_is_what_the_daemon_said(server: Server) -> None:
    url = serve(server, with_health(0, NOT_EVALUATED))
    done = pulsed("health", url, "--format", "json")
    assert (done.returncode, json.loads(done.stdout)) == (3, server.answer)


def test_names_cannot_steer_the_terminal(server: Server) -> None:
    url = serve(server, with_health(0, judged("crit")))
    server.answer[0]["node"] = "\x1b[2Jnode"
    assert "\x1b" not in pulsed("health", url).stdout


@pytest.mark.parametrize(("status", "answer"), [(500, []), (200, {"error": "no"})])
def test_an_answer_that_is_none_is_unknown(server: Server, status: int, answer: object) -> None:
    url = serve(server)
    server.status, server.answer = status, answer
    assert pulsed("health", url).returncode == 3


def test_a_login_is_used_and_never_shown(server: Server) -> None:
    url = serve(server, with_health(0, judged("ok"))).replace("//", "//ops:s3cret%21@")
    server.login = "ops:s3cret!"
    assert pulsed("health", url).returncode == 0
    server.login = "ops:other"
    done = pulsed("health", url)
    assert done.returncode == 3
    assert "s3cret" not in done.stderr


def test_a_certificate_that_is_not_trusted_is_answered_with_the_option(server: Server, tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    server.socket = authority.server_context().wrap_socket(server.socket, server_side=True)
    server.answer = health_document(store_of(target("a", tick([with_health(0, judged("ok"))]))), Monotonic(100.25))
    url = f"https://127.0.0.1:{server.server_port}"
    refused = pulsed("health", url)
    assert refused.returncode == 3
    assert f"pulsed: {url}/health/gpus shows a certificate that is not trusted: " in refused.stderr
    assert "with --ca-file" in refused.stderr
    assert pulsed("health", url, "--ca-file", str(authority.ca)).returncode == 0


def test_few_known_checks_are_unknown_where_a_share_is_required(server: Server) -> None:
    known = judged("ok")
    half = replace(known, coverage=0.5, checks=(*known.checks, CheckState("pcie_link", "unknown")))
    url = serve(server, with_health(0, half))
    assert pulsed("health", url).stdout.startswith("OK: 1 ok 1/2 (")
    assert pulsed("health", url, "--require-coverage", "0.5").returncode == 0
    short = pulsed("health", url, "--require-coverage", "0.6", "--format", "line")
    assert (short.returncode, short.stdout[:14]) == (3, "PULSED UNKNOWN")
    wrong = pulsed("health", url, "--require-coverage", "60")
    assert "give a number from 0 to 1" in wrong.stderr
