"""Secrets and logins of the configuration, which nothing that pulsed writes or answers may repeat."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsed.config.configuration import Config
from pulsed.config.schema import STARS
from pulsed.config.settings import all_keys
from tests.support.daemon import Daemon, pulsed, serving
from tests.support.waiting import until

SECRET = "hunter2-secret"
WITH_LOGIN = f"http://u:{SECRET}@127.0.0.1:1"
IN_QUERY = f"http://127.0.0.1:1/metrics?token={SECRET}"
RECEIVER = {
    "enabled": True,
    "url": f"{WITH_LOGIN}/v1/metrics?token={SECRET}",
    "interval": 1,
    "headers": {"X-Key": SECRET},
}

EXPORTERS: dict[str, dict[str, Any]] = {
    "static": {"targets": [f"{WITH_LOGIN}/metrics", IN_QUERY], "timeout": 1},
    "password": {"targets": ["http://127.0.0.1:1/metrics"], "username": "u", "password": SECRET},
    "labels": {
        "targets": [{"url": f"{WITH_LOGIN}/metrics", "labels": {"rack": "r1"}}],
        "timeout": 1,
        "bearer_token": SECRET,
    },
}
REFUSED = {"web.external_url", "kubernetes.server", "publish.grafana_url"}
"""URLs that must not have a login."""


def test_all_settings_with_secrets_and_urls_are_tried() -> None:
    tried = {"publish.otlp.url", "publish.otlp.headers", "notify.webhook.url"}
    for exporter in EXPORTERS.values():
        tried |= {f"source.exporter.{name}" for name in exporter}
    keys = {
        name for name, key in all_keys(Config).items() if key.kind and (key.kind.secret or "URL" in key.kind.allowed)
    }
    assert keys - REFUSED <= tried


@pytest.mark.parametrize("exporter", EXPORTERS.values(), ids=EXPORTERS)
def test_nothing_repeats_a_secret(tmp_path: Path, exporter: dict[str, Any]) -> None:
    file = tmp_path / "pulsed.yaml"
    notify = {"webhook": {"url": f"{WITH_LOGIN}/hook?token={SECRET}"}}
    source = {"kind": "exporter", "exporter": exporter}
    file.write_text(yaml.dump({"source": source, "publish": {"otlp": RECEIVER}, "notify": notify}))
    with serving(tmp_path, "--config.file", str(file), ready=False) as daemon:
        until(partial(has_failed, daemon))
        for path in ["/", "/-/ready", *daemon.get("/openapi.json").json()["paths"]]:
            if path != "/events":
                answer = daemon.get(path)
                assert SECRET not in f"{answer.headers}{answer.text}", path
        assert daemon.get("/config").json()["publish"]["otlp"]["url"] == f"http://127.0.0.1:1/{STARS}"
        assert SECRET not in daemon.log()
    report = pulsed("doctor", "--config.file", str(file))
    assert SECRET not in report.stdout + report.stderr


def has_failed(daemon: Daemon) -> bool:
    return "source failed" in daemon.log() and "metric_exporter" in daemon.log()
