"""Lists in files, over HTTP and of DNS."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

import pytest

from pulsed.errors import TargetListError
from pulsed.reader.exporter.discovery import DnsListSettings, FileListSettings, HttpListSettings
from pulsed.reader.exporter.discovery.target_groups import TargetGroup
from pulsed.reader.exporter.discovery.target_lists import DnsLists, FileLists, HttpList, ReadLists, TargetLists
from tests.support.daemon import free_port
from tests.support.http_servers import QuietHandler, running
from tests.support.tools import tool


def targets(found: ReadLists) -> dict[str, list[str] | str]:
    """Return the targets by list, or its error."""
    return {
        Path(name).name: str(each) if isinstance(each, TargetListError) else [one for g in each for one in g.targets]
        for name, each in found.items()
    }


async def test_files_are_read_when_they_change(tmp_path: Path) -> None:
    (first := tmp_path / "a.json").write_text('[{"targets": ["a:1"]}]')
    lists = FileLists(FileListSettings(files=(f"{tmp_path}/*.json", f"{tmp_path}/more.yml")))
    found = targets(await lists.read())
    assert found["a.json"] == ["a:1"]
    assert "there is no such file" in found["more.yml"]
    (tmp_path / "more.yml").write_text("- targets: [b:1]")
    first.write_text('[{"targets": ["a:1", "a:2"]}]')
    assert targets(await lists.read()) == {"a.json": ["a:1", "a:2"], "more.yml": ["b:1"]}
    first.write_text('[{"targets')
    assert "not valid JSON" in targets(await lists.read())["a.json"]
    first.unlink()
    assert targets(await lists.read()) == {"more.yml": ["b:1"]}


@pytest.fixture
def inventory() -> Iterator[tuple[str, dict[str, str]]]:
    """Serve what the second of the two says, and keep the headers of the last request in it."""
    answer = {"status": "200", "type": "application/json", "body": "[]"}

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            answer.update({name.lower(): value for name, value in self.headers.items()})
            self.send_response(int(answer["status"]))
            self.send_header("Content-Type", answer["type"])
            self.end_headers()
            self.wfile.write(answer["body"].encode())

    server = HTTPServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield f"http://me:secret@127.0.0.1:{server.server_port}/targets", answer


async def test_a_list_over_http(inventory: tuple[str, dict[str, str]]) -> None:
    url, answer = inventory
    lists = HttpList(HttpListSettings(url=url, interval=20.0))
    try:
        answer |= {"type": "application/json; charset=utf-8", "body": '[{"targets": ["a:1"], "labels": {"rack": "r"}}]'}
        (found,) = (await lists.read()).items()
        assert found == (url.replace("me:secret", "***"), [TargetGroup(["a:1"], {"rack": "r"})])
        assert (answer["x-prometheus-refresh-interval-seconds"], answer["accept"]) == ("20", "application/json")
        assert answer["authorization"] == "Basic bWU6c2VjcmV0"
        for change, error in (
            ({"type": "text/plain"}, "has the content type 'text/plain'"),
            ({"type": "application/json", "status": "503"}, "answered 503"),
            ({"status": "200", "body": "{}"}, "not a list of groups"),
        ):
            answer |= change
            assert error in await error_of(lists)
    finally:
        await lists.close()


async def error_of(lists: TargetLists) -> str:
    """Return the error of the only list."""
    (found,) = (await lists.read()).values()
    assert "secret" not in str(found)
    return str(found)


async def test_a_list_over_http_without_a_server() -> None:
    lists = HttpList(HttpListSettings(url=f"http://127.0.0.1:{free_port()}/"))
    assert "cannot be reached: Connection refused" in await error_of(lists)
    await lists.close()


@contextlib.contextmanager
def dns_server(*options: str) -> Iterator[int]:
    """Run a real DNS server with these records; gives its port."""
    port = free_port()
    fixed = ("--no-daemon", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--listen-address=127.0.0.1")
    process = subprocess.Popen(
        [
            tool("dnsmasq", "dnsmasq-base"),
            *fixed,
            "--bind-interfaces",
            f"--port={port}",
            "--local=/fleet.test/",
            *options,
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.kill()
        process.wait()


async def test_services_of_dns() -> None:
    records = [f"--srv-host=_metrics._tcp.fleet.test,gpu-{number:03}.fleet.test,9400" for number in range(60)]
    with dns_server(*records) as port:
        settings = DnsListSettings(names=("_metrics._tcp.fleet.test", "_none._tcp.fleet.test"))
        lists = DnsLists(settings, (["127.0.0.1"], port))
        found: dict[str, list[str] | str] = {}

        async def answered() -> bool:
            found.update(targets(await lists.read()))
            return isinstance(found["_metrics._tcp.fleet.test"], list)

        while not await answered():
            pass
        assert found == {
            "_metrics._tcp.fleet.test": [f"gpu-{number:03}.fleet.test:9400" for number in range(60)],
            "_none._tcp.fleet.test": [],
        }, "more than a datagram holds"
    assert "See whether the DNS servers answer" in str((await DnsLists(settings, ([], port)).read())[settings.names[0]])


async def test_addresses_of_dns() -> None:
    lists = DnsLists(DnsListSettings(names=("localhost", "no-such-host.invalid"), type="A", port=9400))
    found = targets(await lists.read())
    assert found["localhost"] == ["127.0.0.1:9400"]
    assert found["no-such-host.invalid"] in (
        [],
        "no-such-host.invalid: Temporary failure in name resolution. See whether the DNS servers answer",
    )
