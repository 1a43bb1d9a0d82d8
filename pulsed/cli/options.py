"""The options of all commands, each declared once. Imports nothing that only running a command needs."""

from __future__ import annotations

import argparse
from typing import Any

from pulsed.cli.arguments import (
    expanded_hosts,
    label_pairs,
    object_name,
    positive_number,
    time_span,
    version_tag,
)

DEFAULT_URL = "http://localhost:9401"
"""Of the daemon of this host."""

Option = tuple[tuple[str, ...], dict[str, Any]]
Options = tuple[Option, ...]


def option(*names: str, **settings: Any) -> Option:  # Any: as argparse declares them
    """Return an option with the settings of `ArgumentParser.add_argument`.

    One with the `dest` `config.KEY` sets a key of the configuration.
    """
    return names, settings


CONFIG: Options = (
    option("--config.file", "--config", dest="config_file", metavar="FILE", help="configuration file (YAML)"),
    option("--set", dest="overrides", metavar="KEY=VALUE", action="append", default=[],
           help="set a configuration key, such as source.interval=5s; the value is YAML; repeatable"),
)  # fmt: skip
LOG: Options = (
    *CONFIG,
    option("--log.level", dest="config.log.level", choices=["debug", "info", "warn", "error"]),
    option("--log.format", dest="config.log.format", choices=["logfmt", "json"]),
)
SOURCE: Options = (
    *LOG,
    option("--source", dest="config.source.kind", metavar="KIND", help="short for --set source.kind=KIND"),
)
GPUS: Options = (
    *SOURCE,
    option("--gpus", dest="config.gpus", metavar="LIST",
           help="show only these: indexes, UUIDs, GPU:instance, all or none"),
    option("--show-all", dest="config.gpus", action="store_const", const="all", help="short for --gpus all"),
)  # fmt: skip
LISTEN = option("--web.listen-address", dest="config.listen", metavar="ADDRESS", action="append",
                help=":9401; repeatable")  # fmt: skip
EXPORTER_VERSION = {"type": version_tag, "metavar": "TAG"}


def daemons(timeout: float, default: str = DEFAULT_URL, *leading: Option) -> Options:
    """Return the options of a command that reads daemons: which ones, and how.

    Args:
        timeout: the default of `--timeout`, in seconds.
        default: the input without a URL, for the help.
        leading: arguments before the URLs.
    """
    return (
        *leading,
        option("urls", metavar="URL", nargs="*",
               help=f"daemons to read: gpu1, gpu1:9401 or https://gpu1:9401/path; default: {default}"),
        option("--nodes", metavar="LIST", type=expanded_hosts, default=(),
               help="read the daemons of these nodes, such as gpu[01-04,07], instead of the host of the URL"),
        option("--timeout", type=time_span, metavar="TIME", default=timeout,
               help=f"timeout of each request, such as 5s; default: {timeout:g}s"),
        option("--username", default="", metavar="NAME", help="user name, for URLs without one"),
        option("--user-file", default="", metavar="FILE", help="file with the user, or with USER:PASSWORD"),
        option("--password-file", default="", metavar="FILE", help="file with the password of the user"),
        option("--bearer-token-file", default="", metavar="FILE",
               help="file with a token, for a proxy that requires one"),
        option("--ca-file", default="", metavar="FILE", help="certificates to trust, for https"),
        option("--cert-file", default="", metavar="FILE", help="certificate of this client, for https"),
        option("--key-file", default="", metavar="FILE", help="its key, if it is not in --cert-file"),
    )  # fmt: skip


SERVE: Options = (
    *GPUS,
    LISTEN,
    option("--web.telemetry-path", dest="config.telemetry_path", metavar="PATH",
           help="path of the metrics page; default: /metrics"),
    option("--web.max-requests", dest="config.max_requests", metavar="N",
           help="concurrent requests of the metrics page; 0: no limit"),
    option("--web.enable-lifecycle", dest="config.enable_lifecycle", action="store_true", default=None,
           help="allow POST /-/reload and /-/forget"),
    option("--web.external-url", dest="config.web.external_url", metavar="URL",
           help="URL under which clients reach pulsed; its path prefixes all routes"),
    option("--web.route-prefix", dest="config.web.route_prefix", metavar="PATH",
           help="prefix of all routes; default: the path of --web.external-url"),
    option("--web.config.file", dest="config.web.config_file", metavar="FILE", help="TLS, users, headers (YAML)"),
    option("--web.systemd-socket", dest="config.web.systemd_socket", action="store_true", default=None,
           help="require sockets from systemd; sockets that systemd passes replace the addresses in any case"),
)  # fmt: skip
"""The options `--web.*` are exporter-toolkit's."""

SNAPSHOT: Options = (
    *GPUS,
    option("--format", choices=["table", "json", "csv", "prometheus"], default="table"),
    option("--columns", help="columns of --format csv: default, all (default), or names with commas"),
)

EXPORT: Options = (
    *GPUS,
    option("--columns", default="default", help="default, all, or names with commas"),
    option("--schema", choices=["pulsed", "kempnerpulse"], default="pulsed",
           help="columns and units; kempnerpulse implies compute.workload.profile=kempnerpulse"),
)  # fmt: skip

RECORD: Options = (
    *SOURCE,
    option(
        "file", metavar="FILE", help=("record to write; an existing one is extended; gzipped if named .gz; - is stdout")
    ),
    option("--duration", type=time_span, metavar="TIME", help="stop after this time, such as 60s"),
    option("--ticks", type=positive_number, metavar="N", help="stop after N ticks, of all targets together"),
)

DOCTOR: Options = (
    *SOURCE,
    option("--format", choices=["table", "json"], default="table"),
    option("--exporter-version", **EXPORTER_VERSION,
           help="version of dcgm-exporter, which its page does not include: 4.5.2, or the tag of its image"),
)  # fmt: skip

COUNTERS: Options = (
    option("--exporter-version", **EXPORTER_VERSION, default="4.5.2",
           help="4.5.2, or the tag of its image: 4.4.1-4.5.2-ubuntu22.04; default: 4.5.2"),
    option("--model", default="", help="leave out what this model lacks, such as 'Tesla T4'"),
)  # fmt: skip


def _share(text: str) -> float:
    """Return a share, 0..1."""
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; give a number from 0 to 1, such as 0.5")
    return share


HEALTH: Options = (
    *daemons(10.0),
    option("--format", choices=["table", "json", "line"], default="table", help="line: for Nagios"),
    option("--require-coverage", type=_share, default=0.0, metavar="SHARE",
           help="exit with 3, unknown, if fewer of the checks of a GPU are known: 0.5 is half of those that apply"),
    option("--forget", metavar="GPU",
           help="forget an absent GPU, by UUID or index; needs a daemon with --web.enable-lifecycle"),
    option("--node", help="with --forget: the node of the GPU, if several nodes have such a GPU"),
)  # fmt: skip

JOB: Options = (
    *daemons(2.0, DEFAULT_URL, option(
        "id", metavar="ID", nargs="?",
        help="4711, 4711_7, a pod's NAME, NAMESPACE/NAME or UID; without an ID, or with a URL in its place: the list",
    )),
    option("--format", choices=["text", "json", "line", "js1"], default="text",
           help="line: for an epilog; js1: adds the GPUs to the summary of jobstats on standard input"),
    option("--compare", nargs=2, metavar=("ID", "ID"), help="compare two jobs, as text or json, instead of a report"),
)  # fmt: skip

JOBS: Options = (
    *daemons(10.0),
    option("--since", type=time_span, metavar="TIME",
           help="include all that ended within this time, such as 7d; default: the newest in the daemon's memory"),
    option("--state", choices=["running", "ended"], default=""),
    option("--user", default="", metavar="NAME"),
    option("--account", default="", metavar="NAME", help="account of Slurm"),
    option("--namespace", default="", metavar="NAME"),
    option("--diagnose", action="store_true", help="add the numbers of the first finding of each job"),
    option("--format", choices=["text", "json"], default="text"),
)  # fmt: skip

REPORT: Options = (
    *daemons(30.0),
    option("--since", type=time_span, metavar="TIME", default=2592000.0,
           help="leave out owners that ended earlier; default: 30d"),
    option("--by", choices=["user", "account", "namespace", "workload", "node"], default="user",
           help="one row for each; default: user"),
    option("--format", choices=["table", "csv", "json"], default="table"),
)  # fmt: skip

TOP: Options = (
    *GPUS,
    *daemons(5.0, "this host's daemon, or a local source; URL#/gpu/3 opens that GPU"),
    option("--once", action="store_true", help="print one frame and exit, also to a pipe"),
    option("--interval", type=time_span, metavar="TIME", default=1.0,
           help="time between two requests, at least 250ms; default: 1s"),
    option("--ascii", action="store_true", help="use ASCII characters only"),
    option("--theme", choices=["dark", "light", "16", "none"],
           help=(
               "colours; 16 uses the terminal's own; default: the best that the terminal supports; NO_COLOR turns "
               "them off"
           )),
)  # fmt: skip

RULES: Options = (
    *CONFIG,
    option("--kind", choices=["recording", "alerting", "all"], default="all"),
    option("--exclude", action="append", default=[], metavar="NAME",
           help="leave out an alert or a group (repeatable)"),
    option("--runbook-url", metavar="URL",
           help="URL of the docs/health.md that alerts link to; default: the daemon's, if it has `web.external_url`"),
    option("--format", choices=["prometheus", "kubernetes"], default="prometheus"),
    option("--name", type=object_name, help="name of the PrometheusRule of --format kubernetes"),
    option("--namespace", type=object_name, help="its namespace"),
    option("--labels", type=label_pairs, metavar="NAME=VALUE,...", help="its labels: release=prometheus"),
    option("--output", metavar="FILE", default="-", help="write to this file instead of stdout"),
)  # fmt: skip

CHECK_CONFIG: Options = (
    option("file", metavar="FILE", nargs="?", help="a configuration file (YAML)"),
    option("--web.config.file", dest="web_config_file", metavar="FILE", help="a web configuration file"),
    option(
        "--syntax-only",
        action="store_true",
        help="do not check whether this machine has the files and folders of the configuration",
    ),
)

INSTALL_FILES: Options = (
    option("directory", metavar="DIR", help="made if it is missing; files of the same names are replaced"),
)
