"""Runs inside a booted tree, where systemd is PID 1: Ansible, on a local connection, follows deploy/ansible."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError

from tests.support.booted import FOLDER, page, report, run, serves, shown, until

STATE = Path("/var/lib/pulsed/state.json")

ANSIBLE = "import sys; sys.path.insert(0, '/check/ansible'); from ansible.cli.playbook import main; main()"
"""Not by PYTHONPATH, in which pip would find packages."""

ENVIRONMENT = os.environ | {"LC_ALL": "C.UTF-8", "ANSIBLE_CONFIG": f"{FOLDER}/deploy/ansible/ansible.cfg"}

INVENTORY = FOLDER / "inventory"
VARIABLES = FOLDER / "group_vars" / "gpu_nodes.yaml"
BEFORE = FOLDER / "before"
"""The list of files before the first run."""

(PACKAGE,) = (FOLDER / "dist").iterdir()
"""A wheel or a deb."""

TARGETS = FOLDER / "targets.json"
CONFIG = {"source": {"kind": "demo"}, "state_dir": "/var/lib/pulsed"}
CONFIGURE = "--tags=configuration"
PURGE = [
    word
    for command in re.findall(
        r"`[^`]*(-e pulsed_(?:state|purge)=\w+)`", (FOLDER / "deploy/ansible/README.md").read_text()
    )
    for word in command.split()
]
"""The options of the README."""
DROP_IN = Path("/etc/systemd/system/pulsed.service.d/kernel-log.conf")

WRITTEN_BY_OTHERS = (
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/tmp",
    "/check",
    "/root",
    "/var/log",
    "/var/cache/apt",
    "/var/lib/apt",
    "/var/lib/dpkg",
)


def files() -> str:
    """List the files of the tree, and its users."""
    skipped = " -o ".join(f"-path {path}" for path in WRITTEN_BY_OTHERS).split()
    found = run("find", "/", "(", *skipped, ")", "-prune", "-o", "!", "-name", "*.pyc", "-print")
    return "\n".join([*found.splitlines(), Path("/etc/passwd").read_text(), Path("/etc/group").read_text()])


def settings() -> Path:
    """Return the configuration file that the unit names."""
    (path,) = re.findall(r"--config\.file (\S+)", run("systemctl", "cat", "pulsed"))
    return Path(path)


def starts() -> int:
    """Return how often systemd has started pulsed."""
    return len(run("journalctl", "--unit=pulsed", "--grep=^Starting pulsed", "--output=cat", "--quiet").splitlines())


def playbook(*options: str, fails: bool = False, **variables: object) -> tuple[int, str]:
    """Run the playbook as operators do; return the number of changes, and the output.

    Values that are texts or numbers are given on the command line, where all of them are texts.
    """
    options += tuple(
        f"-e{name}={shlex.quote(str(text))}" for name, text in variables.items() if isinstance(text, str | int)
    )
    VARIABLES.parent.mkdir(exist_ok=True)
    VARIABLES.write_text(
        json.dumps(
            {"pulsed_package": str(PACKAGE), "pulsed_config": CONFIG}
            | {name: value for name, value in variables.items() if not isinstance(value, str | int)}
        )
    )
    INVENTORY.write_text("[gpu_nodes]\nlocalhost ansible_connection=local ansible_become=false\n")
    words = [sys.executable, "-c", ANSIBLE, "-i", str(INVENTORY), f"{FOLDER}/deploy/ansible/site.yaml", *options]
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    output = done.stdout[-6000:] + done.stderr[-2000:]
    assert bool(done.returncode) == fails, output
    (changed,) = re.findall(r"changed=(\d+)", done.stdout.partition("PLAY RECAP")[2])
    return int(changed), output


def install() -> str:
    """The first run installs, and starts the service once."""
    BEFORE.write_text(files())
    changed, _ = playbook()
    assert serves()
    assert run("systemctl", "is-enabled", "pulsed") == "enabled"
    assert (shown("NRestarts"), shown("User"), starts()) == ("0", "pulsed", 1)
    assert (settings().stat().st_mode & 0o777, settings().group()) == (0o640, "pulsed")
    return f"{changed} changes"


def again() -> str:
    """The second run changes nothing, and neither does a run that only looks."""
    for options in ((), (CONFIGURE, "--check")):
        changed, output = playbook(*options)
        assert changed == 0, output
    assert starts() == 1
    return "0 changes"


def reload() -> str:
    """A reload applies a changed configuration in the same process."""
    changed, output = playbook(CONFIGURE, pulsed_config=CONFIG | {"gpus": "0,2"}, pulsed_on_change="reloaded")
    assert changed == 2, output
    until(lambda: page().count("\npulsed_gpu_info{") == 2, "two GPUs")
    assert starts() == 1
    return "two GPUs"


def wrong_configuration() -> str:
    """A wrong configuration fails with the name of the key, and never reaches the file."""
    before = settings().read_text()
    _, output = playbook(CONFIGURE, fails=True, pulsed_config=CONFIG | {"sauce": 1})
    assert "sauce" in output, output
    assert (settings().read_text(), starts()) == (before, 1)
    return "named the key"


def not_ready() -> str:
    """A node whose GPUs cannot be read ends the rollout with the reason; by default a new file means a restart."""
    target = {"kind": "exporter", "exporter": {"targets": "http://localhost:1/metrics"}}
    _, output = playbook(CONFIGURE, fails=True, pulsed_config=CONFIG | {"source": target}, pulsed_ready_seconds=2)
    assert "refused" in output, output
    assert starts() == 2
    return "named the reason"


def access() -> str:
    """Drop-ins, users and flags are in force after one restart."""
    playbook(
        CONFIGURE,
        pulsed_drop_ins=["kernel-log"],
        pulsed_web_config={"basic_auth_users": {"ada": "$2b$04$6FrUyRGGMqo5V4wSGfxM0OnUMlVPY8sB0bkPAhzJIKi4TN4X1gyEi"}},
        pulsed_arguments="--web.config.file=/etc/pulsed/web.yaml --set=web.open_probes=true",
    )
    assert shown("AmbientCapabilities") == "cap_syslog"
    assert starts() == 3
    try:
        page()
    except HTTPError as error:
        return str(error)
    raise AssertionError("a page without a password")


def upgrade() -> str:
    """Another version is installed, what is not wanted any more is gone, and the service has restarted once."""
    (new,) = (FOLDER / "new").iterdir()
    before = starts()
    changed, _ = playbook(pulsed_package=str(new))
    version = re.split("[-_]", new.name)[1]
    assert f'version="{version}"' in page(), version
    copied = [path.name for folder in ("/opt/pulsed", "/var/cache") for path in Path(folder).glob("pulsed[-_]*")]
    assert copied == [new.name]
    assert not DROP_IN.exists()
    assert starts() == before + 1
    return f"{changed} changes"


def remove() -> str:
    """Configuration and state stay; a purge leaves no file and no user, and a second one changes nothing."""
    until(STATE.exists, "the state file")
    kept = settings()
    playbook(pulsed_state="absent")
    assert run("systemctl", "is-active", "pulsed", check=False) == "inactive"
    assert kept.exists()
    assert STATE.exists()
    playbook(*PURGE)
    before, after = (
        set(text.splitlines()) | {"/opt"} for text in (BEFORE.read_text(), files())
    )  # as after a purged deb
    assert before == after, sorted(before ^ after)
    changed, output = playbook(*PURGE)
    assert changed == 0, output
    return f"{len(after)} files and users, as before"


STEPS = (
    install,
    again,
    reload,
    wrong_configuration,
    not_ready,
    access,
    upgrade,
    remove,
)

STEPS_OF_DEB = (install, upgrade, remove)
"""A deb differs from a wheel in these."""

report(STEPS_OF_DEB if PACKAGE.suffix == ".deb" else STEPS)
