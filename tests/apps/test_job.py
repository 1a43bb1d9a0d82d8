"""`pulsed job` against real HTTP servers with answers that the API's own code made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import HTTPServer
from typing import Any

import pytest

from pulsed.model.owner import pod
from pulsed.owners.report.account_totals import group_account
from pulsed.owners.report.job_numbers import Prices, cost_of
from tests.owners.report.accounts import BEGIN, document, gpu_account
from tests.support.daemon import free_port, pulsed
from tests.support.http_servers import QuietHandler, running

Answers = dict[str, Any]


class Node(HTTPServer):
    """A daemon of one node: documents by path."""

    answers: Answers


class NodeHandler(QuietHandler):
    server: Node

    def do_GET(self) -> None:
        answer = self.server.answers.get(self.path)
        self.send_response(404 if answer is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer or {"error": "not found"}).encode())


Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a daemon on an address, and returns its port."""
    with ExitStack() as stack:

        def begin(answers: Answers, host: str = "127.0.0.1", port: int = 0) -> int:
            node = Node((host, port), NodeHandler)
            node.answers = answers
            stack.enter_context(running(node))
            return node.server_port

        yield begin


@pytest.mark.slow
def test_the_list_and_one_job(start: Start) -> None:
    made = document(gpu_account(0))
    listed = {"node": "gpu01", "time": "", "jobs": [made, document(gpu_account(1), owner=pod("ml", "web"))]}
    port = start({"/jobs?limit=250": listed, "/jobs/4711": made, "/jobs/pod:ml/web": listed["jobs"][1]})
    url = f"localhost:{port}"
    assert [line.split()[0] for line in pulsed("job", url).stdout.splitlines()] == ["JOB", "4711", "ml/web"]
    assert json.loads(pulsed("job", url, "--format", "json").stdout) == listed["jobs"]
    assert pulsed("job", "4711", url).stdout.startswith("Job 4711 (ann, lab)  train   1 x H100, 1 node, 4 h, ended")
    assert json.loads(pulsed("job", "4711", url, "--format", "json").stdout) == made
    assert pulsed("job", "4711", url, "--format", "line").stdout.startswith(
        "Works well: 40 % real utilization on 1 GPU. pulsed/1 gpus=1 h=4 ru=.4 "
    )
    assert pulsed("job", "pod:ml/web", url).stdout.startswith("Pod ml/web ")


def test_the_list_has_all_running_owners(start: Start) -> None:
    made = [document(gpu_account(number), owner=pod("ml", f"web-{number}")) for number in range(3)]
    pages = {
        "/jobs?limit=250": {"jobs": made[:2], "running": 3},
        "/jobs?limit=250&offset=2": {"jobs": made[2:], "running": 3},
    }
    listed = pulsed("job", f"localhost:{start(pages)}", "--format", "json").stdout
    assert len(json.loads(listed)) == 3


@pytest.mark.slow
def test_mistakes_name_the_remedy(start: Start) -> None:
    port = start({"/jobs?limit=250": []})
    for arguments, code, message in (
        (["4712", f"localhost:{port}"], 1, f"pulsed: http://localhost:{port}: there is no job '4712'."),
        ([f"localhost:{port}"], 1, "the answer has no jobs"),
        (["ftp://x"], 2, "'ftp://x' is not the URL of a pulsed"),
        (["1", "--nodes=gpu[1"], 2, "--nodes 'gpu[1': 'gpu[1' is not a host name"),
        (["--format", "line"], 2, "job: --format line needs an ID"),
        (["1", f"localhost:{free_port()}"], 1, "Check that `pulsed serve` runs there"),
    ):
        done = pulsed("job", *arguments)
        assert (done.returncode, done.stdout) == (code, "")
        assert message in done.stderr


def test_the_name_may_follow_the_url(start: Start) -> None:
    port = start({"/jobs/4711": document(gpu_account(0)), "/jobs/4711_7": document(gpu_account(0))})
    for arguments in (
        ("4711", f"localhost:{port}"),
        (f"localhost:{port}", "4711"),
        (f"http://localhost:{port}", "4711_7"),
    ):
        assert pulsed("job", *arguments).stdout.startswith("Job 4711 (ann, lab) ")
    done = pulsed("job", f"localhost:{port}", "1", "2")
    assert done.returncode == 2
    assert "'2' is not the URL of a pulsed; give one ID" in done.stderr


def test_the_tasks_of_an_array_on_several_nodes(start: Start) -> None:
    """They may have the same GPU, one after the other."""
    first, second = document(gpu_account(0)), document(gpu_account(0), begin=BEGIN + 20_000.0)
    port = start({"/jobs/500": group_account("500", {"500_1": first}, 1)}, "127.0.0.11")
    start({"/jobs/500": group_account("500", {"500_2": second}, 1)}, "127.0.0.12", port)
    made = json.loads(
        pulsed("job", "500", f"http://localhost:{port}", "--nodes", "127.0.0.[11-12]", "--format", "json").stdout
    )
    assert [part["id"] for part in made["parts"]] == ["500_1", "500_2"]
    assert (made["part_count"], made["gpu_count"], made["missing_nodes"]) == (2, 1, [])
    assert made["total"]["gpu_seconds"] == 2 * 14400.0
    assert made["elapsed_seconds"] == 20_000.0 + 14400.0


def test_a_job_on_several_nodes(start: Start) -> None:
    """Sums are added, a node that is silent is named, and an older job with the same id does not count."""
    first = document(gpu_account(0, real=0.3), gpu_account(1, real=0.0, idle=1.0))
    second = document(gpu_account(0, real=0.8, node="gpu02"), begin=BEGIN + 2.0)
    port = start({"/jobs/4711": first}, "127.0.0.11")
    start({"/jobs/4711": second}, "127.0.0.12", port)
    start({"/jobs/4711": document(gpu_account(0, node="gpu03"), begin=BEGIN - 1e6)}, "127.0.0.13", port)
    start({}, "127.0.0.14", port)
    for each, price in ((first, 2.0), (second, 2.0)):
        each["cost"] = cost_of(each["total"], each["gpus"], Prices(price))
    arguments = ("job", "4711", f"http://localhost:{port}", "--nodes", "127.0.0.[11-15]")
    made = json.loads(pulsed(*arguments, "--format", "json").stdout)
    assert (made["begin"], made["gpu_count"], made["answered_nodes"]) == (first["begin"], 3, 2)
    assert made["total"]["gpu_seconds"] == 3 * 14400.0
    assert made["total"]["counters"]["idle_seconds"] == {"held": 14400.0}
    assert made["total"]["counters"]["real_utilization_seconds"] == pytest.approx(1.1 * 14400.0)
    assert made["cost"]["total"] == 24.0
    reasons = {each["node"]: each["reason"] for each in made["missing_nodes"]}
    assert reasons.keys() == {"127.0.0.13", "127.0.0.14", "127.0.0.15"}
    assert reasons["127.0.0.13"] == "has an older job with this id"
    assert reasons["127.0.0.14"] == "has no such job"
    assert "cannot reach" in reasons["127.0.0.15"]
    report = pulsed(*arguments).stdout
    assert "3 x H100, 2 nodes, 4 h, ended" in report
    assert "  gpu02/0        4.0       80 %   0.0" in report
    assert "GPU gpu01/1: idle 4 h of 4 h" in report
    assert "Not known   3 of 5 nodes: 127.0.0.13 (has an older job with this id), " in report
    assert pulsed(*arguments, "--format", "line").stdout.endswith(" flags=idle_gpu,imbalance cov=1 nodes=2/5\n")


@pytest.mark.slow
def test_two_jobs_are_compared(start: Start) -> None:
    jobs = [document(gpu_account(0, real=real, watts=watts)) for real, watts in ((0.4, 500.0), (0.6, 500.0))]
    for made in jobs:
        known = {"gpu_seconds": [900.0] * 16, "real_utilization_seconds": [360.0] * 16}
        made["timeline"] |= {"bucket_seconds": 900.0, **known}
    url = f"localhost:{start({'/jobs/1': jobs[0], '/jobs/2': jobs[1]})}"
    found = json.loads(pulsed("job", "--compare", "1", "2", url, "--format", "json").stdout)
    assert {name for name, each in found["quantities"].items() if each["differs"]} == {"real_utilization_ratio"}
    assert "Differs by more than the spread: real work\n" in pulsed("job", url, "--compare", "1", "2").stdout
    refused = pulsed("job", "4711", "--compare", "1", "2")
    assert (refused.returncode, "--compare takes two IDs" in refused.stderr) == (2, True)
    assert "there is no job '3'" in pulsed("job", "--compare", "1", "3", url).stderr
