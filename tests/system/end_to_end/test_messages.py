"""What a mistake on the command line is answered with: the place, the remedy, one prefix, and the exit code."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import NamedTuple

import pytest

from pulsed.cli import argument_parser, main
from tests.support.daemon import free_port, pulsed

NOBODY = f"http://127.0.0.1:{free_port()}"
EXPORTER = ("--source=exporter", f"--set=source.exporter.targets={NOBODY}/metrics")


class Mistake(NamedTuple):
    """A command line, split at blanks, its exit code, and what its message contains."""

    line: str
    code: int
    words: tuple[str, ...]


FILES = {
    "empty": b"",
    "binary": bytes(range(256)),
    "broken.yaml": b"a: [\n",
    "typo.yaml": b"sorce: {kind: demo}\n",
    "page.html": b"<html><body>Not here</body></html>\n",
}

REPLAY = "--source replay --set source.replay.path="
SAVED = "--source exporter --set source.exporter.targets="

MISTAKES = (
    # the command line
    Mistake("", 2, ("pulsed: no command is given", "See `pulsed --help`")),
    Mistake("serv", 2, ("pulsed: there is no command 'serv'; did you mean serve? See `pulsed --help`",)),
    Mistake("xyz", 2, ("there is no command 'xyz'; allowed: serve, snapshot, ",)),
    Mistake("--bogus", 2, ("pulsed: unknown option --bogus. See `pulsed --help`",)),
    Mistake("snapshot --fromat json", 2, ("snapshot: unknown option --fromat; did you mean --format? See",)),
    Mistake("snapshot --format xml", 2, ("snapshot: --format: 'xml' is not allowed; allowed: table, json, csv, prom",)),
    Mistake("snapshot --log.level wran", 2, ("'wran' is not allowed; did you mean warn?",)),
    Mistake("snapshot --format", 2, ("snapshot: --format: expected one argument",)),
    Mistake("serve now", 2, ("serve: unexpected argument 'now'. See `pulsed serve --help`",)),
    Mistake("record", 2, ("record: the following arguments are required: FILE",)),
    Mistake("record x --ticks 0", 2, ("record: --ticks: '0' is not a whole number above 0",)),
    Mistake("record x --ticks 1.5", 2, ("record: --ticks: '1.5' is not a whole number above 0",)),
    Mistake("record x --duration 0", 2, ("record: --duration: '0' is not a positive duration",)),
    Mistake("record x --duration soon", 2, ("record: --duration: 'soon' is not a duration; give a duration such as",)),
    Mistake("counters --exporter-version latest", 2, ("'latest' is not a version of dcgm-exporter; give 4.5.2",)),
    Mistake("rules --format kubernetes --name A_B", 2, ("rules: --name: 'A_B' is not a name of Kubernetes; use",)),
    Mistake("rules --labels a=b", 2, ("rules: --labels needs --format kubernetes",)),
    Mistake("snapshot --columns gpu", 2, ("snapshot: --columns needs --format csv",)),
    Mistake("serve --web.max-requests many", 2, ("--web.max-requests: max_requests: 'many' is not allowed",)),
    Mistake("serve --web.listen-address here", 2, ("--web.listen-address: listen[0]: 'here' has no port; allowed: ",)),
    Mistake("check-config", 2, ("check-config: no file is given",)),
    # options that would do nothing
    Mistake("record x --gpus 1", 2, ("record: unknown option --gpus",)),
    Mistake("doctor --show-all", 2, ("doctor: unknown option --show-all",)),
    Mistake("rules --source demo", 2, ("rules: unknown option --source",)),
    # configuration
    Mistake("snapshot --config absent.yaml", 2, ("absent.yaml: cannot be read: No such file", "name a YAML file")),
    Mistake("snapshot --config folder", 2, ("folder: cannot be read: not a regular file; name a YAML file",)),
    Mistake("snapshot --config binary", 2, ("binary: cannot be read: it is not UTF-8; name a YAML file",)),
    Mistake("check-config broken.yaml", 2, ("broken.yaml:2:1: not valid YAML",)),
    Mistake("check-config typo.yaml", 2, ("typo.yaml:1: sorce: unknown key; did you mean source?",)),
    Mistake("snapshot --source dem", 2, ("--source: source.kind: 'dem' is not allowed; allowed: auto, dcgmi,",)),
    Mistake("snapshot --set interval", 2, ("--set number 1: must be key.path=value",)),
    Mistake("snapshot --source demo --gpus first", 2, ("--gpus: gpus: 'first' names no GPUs; allowed: indexes",)),
    Mistake("snapshot --source demo --format csv --columns x", 2, ("unknown column 'x' in --columns",)),
    # sources
    Mistake("snapshot --source demo --gpus 9", 1, ("gpus: there is no GPU 9. There are: 0, 1, 2, 3, 4, 5, 6, 7",)),
    Mistake("export --source demo --gpus 0,8:1", 1, ("gpus: there is no GPU 8:1. There are: 0, 1",)),
    Mistake(" ".join(("snapshot", *EXPORTER)), 1, (f"{NOBODY}/metrics cannot be reached: Connection refused", "host")),
    Mistake(f"snapshot {SAVED}absent", 1, ("cannot read absent: No such file", "or a URL with http://")),
    Mistake(f"snapshot {SAVED}folder", 1, ("folder is not a regular file. A target is a URL or the path of",)),
    Mistake(f"snapshot {SAVED}empty", 1, ("empty: empty page. ",)),
    Mistake(f"snapshot {SAVED}binary", 1, ("binary: The answer is binary", "Check that it is a page of dcgm-exporter")),
    Mistake(f"snapshot {SAVED}page.html", 1, ("page.html",)),
    Mistake(f"snapshot {SAVED}htp://x", 2, ("'htp://x' does not begin with http:// or https://; allowed: a URL",)),
    Mistake("snapshot --source replay", 2, ("which needs a recording; set source.replay.path",)),
    Mistake(f"snapshot {REPLAY}absent", 1, ("cannot read absent: No such file", "It must exist")),
    Mistake(f"snapshot {REPLAY}empty", 1, ("empty is empty. Give a record of `pulsed record`",)),
    Mistake(f"snapshot {REPLAY}folder", 1, ("folder is a folder without files. Give a record",)),
    Mistake(f"snapshot {REPLAY}binary", 1, ("binary is a binary file. Give a record",)),
    # outputs
    Mistake(
        "record absent/x --source demo", 1, ("cannot write absent/x: No such file", "Name a file in a folder that")
    ),
    Mistake("record folder --source demo", 1, ("cannot write folder: Is a directory. Name a file in",)),
    Mistake("record broken.yaml --source demo", 2, ("broken.yaml exists and is not a record. Give another name",)),
    Mistake("rules --output absent/x", 1, ("cannot write absent/x: No such file", "Name another file")),
    # listeners
    Mistake("serve --source demo --web.listen-address unix:/absent/x", 1, ("No such file", "Create the folder of the")),
    Mistake("serve --source demo --web.listen-address 192.0.2.1:1", 1, ("192.0.2.1:1: Cannot", "an address of this h")),
    Mistake("serve --source demo --web.listen-address a.invalid:1", 1, ("on a.invalid:1: ", "an address of this host")),
    # health, whose codes are those of a monitor: 3 is unknown
    Mistake(f"health {NOBODY}", 3, (f"cannot reach {NOBODY}/health/gpus: Connection refused. Check that `pulsed ser",)),
    Mistake("health ftp://x", 3, ("health: 'ftp://x' is not the URL of a pulsed. Give one such as http://localhost",)),
    Mistake("health http://x:port", 3, ("'http://x:port' is not the URL of a pulsed",)),
    Mistake("health --tiemout 1", 3, ("health: unknown option --tiemout; did you mean --timeout?",)),
    Mistake("health --format line2", 3, ("health: --format: 'line2' is not allowed; did you mean line?",)),
    Mistake("health --ca-file absent https://x", 3, ("--ca-file absent cannot be used: No such file", "PEM format")),
)


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PULSED_")]:
        monkeypatch.delenv(name)
    (tmp_path / "folder").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.line.replace(NOBODY, "nobody") or "nothing")
def test_a_mistake_is_answered_with_its_place_and_a_remedy(
    mistake: Mistake, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(mistake.line.split())
    last = capsys.readouterr().err.splitlines()[-1]
    assert [word for word in mistake.words if word not in last] == [], last
    assert code == mistake.code
    assert last.startswith("pulsed: ")
    assert "pulsed: pulsed" not in last
    assert "Errno" not in last


def test_a_port_in_use_is_named_with_the_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        finished = pulsed("serve", "--source=demo", f"--web.listen-address={address}")
    assert finished.returncode == 1
    last = finished.stderr.splitlines()[-1]
    assert f"pulsed: cannot listen on {address}: Address already in use" in last
    assert "--web.listen-address" in last


def test_exit_codes_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        ([], "Exit codes: 0 success, 1 error, 2 wrong usage or configuration"),
        (["health"], "Exit codes: 0 ok, 1 warn or hot, 2 crit, 3 unknown or wrong usage"),
    ):
        with pytest.raises(SystemExit):
            argument_parser().parse_args([*arguments, "--help"])
        assert words in " ".join(capsys.readouterr().out.split())
