"""The command line: `pulsed serve`, `adapter`, `snapshot`, `export`, `record`, `doctor`, `counters`, `health`, `job`,
`top`, `rules`, `check-config`.

Arguments only: the commands are modules of `pulsed.commands`, which are imported when they run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pulsed import __version__
from pulsed.argument_types import (
    host_list,
    label_names,
    label_pairs,
    object_name,
    positive_number,
    time_span,
    version_tag,
)
from pulsed.command_parser import CommandParser
from pulsed.errors import HealthUsageError, PulsedError

if TYPE_CHECKING:
    from pulsed.config import Config

EPILOG = (
    "Precedence: flag, environment (PULSED_<KEY>__<SUBKEY>), file, default. Exit codes: 0 success, 1 error, 2 wrong "
    "usage or configuration; of health: 0 ok, 1 warn or hot, 2 crit, 3 unknown or wrong usage."
)

JOB_FORMATS = "line: for an epilog; js1: adds the GPUs to the summary of jobstats on standard input"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0 success, 1 error at run time, 2 wrong usage or configuration."""
    try:
        options = _parse(arguments)
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except PulsedError as error:
        print(f"pulsed: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). Python would raise again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argument_parser()
    options = argparse.Namespace()
    rest: list[str] = parser.parse_known_args(arguments, options)[1]
    command: CommandParser | None = getattr(options, "parser", None)
    if rest:
        (command or parser).unknown(rest[0])
    if command is None:
        parser.error("no command is given")
    return options


def argument_parser() -> CommandParser:
    """Return the parser of all commands."""
    parser = CommandParser(prog="pulsed", description="Trustworthy GPU metrics from NVIDIA DCGM.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"pulsed {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=CommandParser)

    configured = CommandParser(add_help=False)
    configured.add_argument(
        "--config.file", "--config", dest="config_file", metavar="FILE", help="configuration file (YAML)"
    )
    configured.add_argument(
        "--set", dest="overrides", metavar="KEY=VALUE", action="append", default=[],
        help="set a configuration key, such as source.interval=5s; the value is YAML; repeatable",
    )  # fmt: skip
    logging = CommandParser(add_help=False, parents=[configured])
    logging.add_argument("--log.level", dest="log.level", choices=["debug", "info", "warn", "error"])
    logging.add_argument("--log.format", dest="log.format", choices=["logfmt", "json"])
    reading = CommandParser(add_help=False, parents=[logging])
    reading.add_argument("--source", dest="source.kind", metavar="KIND", help="short for --set source.kind=KIND")
    showing = CommandParser(add_help=False, parents=[reading])
    showing.add_argument("--gpus", metavar="LIST", help="show only these: indexes, UUIDs, GPU:instance, all or none")
    showing.add_argument("--show-all", dest="gpus", action="store_const", const="all", help="short for --gpus all")

    serve = commands.add_parser("serve", parents=[showing], help="run the daemon")
    serve.add_argument(
        "--web.listen-address", dest="listen", metavar="ADDRESS", action="append", help=":9401; repeatable"
    )
    serve.add_argument(
        "--web.telemetry-path",
        dest="telemetry_path",
        metavar="PATH",
        help="path of the metrics page; default: /metrics",
    )
    serve.add_argument(
        "--web.max-requests",
        dest="max_requests",
        metavar="N",
        help="concurrent requests of the metrics page; 0: no limit",
    )
    serve.add_argument(
        "--web.enable-lifecycle", dest="enable_lifecycle", action="store_true", default=None,
        help="allow POST /-/reload and /-/forget",
    )  # fmt: skip
    serve.add_argument(
        "--web.external-url",
        dest="web.external_url",
        metavar="URL",
        help="URL under which clients reach pulsed; its path prefixes all routes",
    )
    serve.add_argument(
        "--web.route-prefix",
        dest="web.route_prefix",
        metavar="PATH",
        help="prefix of all routes; default: the path of --web.external-url",
    )
    serve.add_argument("--web.config.file", dest="web.config_file", metavar="FILE", help="TLS, users, headers (YAML)")
    serve.add_argument(
        "--web.systemd-socket", dest="web.systemd_socket", action="store_true", default=None,
        help="serve on the sockets of systemd",
    )  # fmt: skip
    serve.set_defaults(run=_serve, parser=serve)

    adapter = commands.add_parser(
        "adapter",
        parents=[logging],
        help="answer the metrics APIs of Kubernetes from the daemons of a cluster",
        description="Answers custom.metrics.k8s.io and external.metrics.k8s.io, for HorizontalPodAutoscalers.",
    )
    adapter.add_argument(
        "--web.listen-address", dest="listen", metavar="ADDRESS", action="append", help=":9401; repeatable"
    )
    adapter.add_argument("--web.config.file", dest="web.config_file", metavar="FILE", help="TLS, clients (YAML)")
    adapter.set_defaults(run=_adapter, parser=adapter)

    snapshot = commands.add_parser("snapshot", parents=[showing], help="print one tick and exit")
    snapshot.add_argument("--format", choices=["table", "json", "csv", "prometheus"], default="table")
    snapshot.add_argument("--columns", help="columns of --format csv: default, all (default), or names with commas")
    snapshot.set_defaults(run=_snapshot, parser=snapshot)

    export = commands.add_parser("export", parents=[showing], help="print every tick as CSV until the source ends")
    export.add_argument("--columns", default="default", help="default, all, or names with commas")
    export.add_argument(
        "--schema", choices=["pulsed", "kempnerpulse"], default="pulsed",
        help="columns and units; kempnerpulse implies compute.workload.profile=kempnerpulse",
    )  # fmt: skip
    export.set_defaults(run=_export, parser=export)

    record = commands.add_parser(
        "record", parents=[reading], help="write raw ticks to a file, for replay, until the source ends"
    )
    record.add_argument(
        "file", metavar="FILE", help="an existing record is appended to; gzipped if named .gz; - is stdout"
    )
    record.add_argument("--duration", type=time_span, metavar="TIME", help="stop after this time, such as 60s")
    record.add_argument(
        "--ticks", type=positive_number, metavar="N", help="stop after N ticks, of all targets together"
    )
    record.set_defaults(run=_record, parser=record)

    doctor = commands.add_parser("doctor", parents=[reading], help="check which sources work here, and what they lack")
    doctor.add_argument("--format", choices=["table", "json"], default="table")
    doctor.add_argument(
        "--exporter-version", type=version_tag, metavar="TAG",
        help="version of dcgm-exporter, which its page does not name: 4.5.2, or the tag of its image",
    )  # fmt: skip
    doctor.set_defaults(run=_doctor, parser=doctor)

    counters = commands.add_parser(
        "counters",
        help="print a counters file for dcgm-exporter with all that pulsed can use",
        description="Prints a counters file (CSV) for dcgm-exporter, which does not start with a field that it lacks.",
    )
    counters.add_argument(
        "--exporter-version", type=version_tag, metavar="TAG", default="4.5.2",
        help="4.5.2, or the tag of its image: 4.4.1-4.5.2-ubuntu22.04; default: 4.5.2",
    )  # fmt: skip
    counters.add_argument("--model", default="", help="leave out what this model lacks, such as 'Tesla T4'")
    counters.set_defaults(run=_counters, parser=counters)

    health = commands.add_parser(
        "health",
        help="show the problems of the GPUs and their remedies",
        description="Shows the GPU health of a running pulsed. Exit codes: 0 ok, 1 warn or hot, 2 crit, 3 unknown "
        "or wrong usage.",
    )
    health.usage_error = HealthUsageError
    health.add_argument("urls", metavar="URL", nargs="*", help="of one or several; default: http://localhost:9401")
    health.add_argument("--format", choices=["table", "json", "line"], default="table", help="line: for Nagios")
    _add_client_options(health, timeout=10.0)
    health.add_argument(
        "--forget", metavar="GPU",
        help="forget an absent GPU, by UUID or index, instead; needs a pulsed with --web.enable-lifecycle",
    )  # fmt: skip
    health.add_argument("--node", help="with --forget: its node, if several have such a GPU")
    health.set_defaults(run=_health, parser=health)

    job = commands.add_parser(
        "job",
        help="list the jobs and pods of a running daemon, or report what one got out of its GPUs",
        description="Lists the owners of GPUs of a running pulsed, or reports one of them.",
    )
    job.add_argument("id", metavar="ID", nargs="?", help="4711, 4711_7, pod:NAMESPACE/NAME, or a pod's UID")
    job.add_argument("--url", default="http://localhost:9401", help="of the pulsed; default: http://localhost:9401")
    job.add_argument(
        "--nodes", metavar="LIST", type=host_list, default=(),
        help="read the pulsed on each of these nodes instead, at the port of --url: gpu[01-04,07]",
    )  # fmt: skip
    job.add_argument("--format", choices=["text", "json", "line", "js1"], default="text", help=JOB_FORMATS)
    _add_client_options(job, timeout=2.0)
    job.set_defaults(run=_job, parser=job)

    _add_top(commands, showing)

    rules = commands.add_parser("rules", parents=[configured], help="print recording and alerting rules for Prometheus")
    rules.add_argument("--kind", choices=["recording", "alerting", "all"], default="all")
    rules.add_argument(
        "--for", dest="metrics", choices=["dcgm", "pulsed", "both"], default="both",
        help="based on dcgm-exporter's DCGM_FI_* series, without a daemon, or on the metrics of pulsed",
    )  # fmt: skip
    rules.add_argument(
        "--exclude", action="append", default=[], metavar="NAME", help="leave out an alert or a group (repeatable)"
    )
    rules.add_argument("--runbook-url", metavar="URL", help="the HEALTH.md that the alerts link to")
    rules.add_argument(
        "--by", type=label_names, metavar="LABELS", help="labels that identify a GPU on DCGM_FI_* series: UUID,gpu,..."
    )
    rules.add_argument("--format", choices=["prometheus", "kubernetes"], default="prometheus")
    rules.add_argument("--name", type=object_name, help="name of the PrometheusRule of --format kubernetes")
    rules.add_argument("--namespace", type=object_name, help="its namespace")
    rules.add_argument("--labels", type=label_pairs, metavar="NAME=VALUE,...", help="its labels: release=prometheus")
    rules.add_argument("--output", metavar="FILE", default="-", help="write to this file instead of stdout")
    rules.set_defaults(run=_rules, parser=rules)

    check = commands.add_parser("check-config", help="validate a configuration file")
    check.add_argument("file", metavar="FILE", nargs="?", help="a configuration file (YAML)")
    check.add_argument("--web.config.file", dest="web_config_file", metavar="FILE", help="a web configuration file")
    check.set_defaults(run=_check_config, parser=check)
    return parser


def _add_client_options(parser: CommandParser, *, timeout: float) -> None:
    """Add the options of requests to a daemon; `timeout` is the default in seconds."""
    parser.add_argument(
        "--timeout",
        type=time_span,
        metavar="TIME",
        default=timeout,
        help=f"of each request, such as 5s; default: {timeout:g}s",
    )
    parser.add_argument("--ca-file", dest="ca_file", metavar="FILE", help="certificates to trust, for https")


def _add_top(commands: argparse._SubParsersAction[CommandParser], showing: CommandParser) -> None:
    top = commands.add_parser(
        "top",
        parents=[showing],
        help="show the GPUs of running daemons, or of an own source, in the terminal",
        description="Shows GPUs, their work, health and events. Press ? for keys and commands.",
    )
    top.add_argument(
        "urls", metavar="URL", nargs="*",
        help="of one or several; default: the pulsed of this host, else an own source; URL#/gpu/3 opens that GPU",
    )  # fmt: skip
    top.add_argument("--once", action="store_true", help="print one frame and exit, also to a pipe")
    top.add_argument(
        "--interval", type=time_span, metavar="TIME", default=1.0, help="between two requests, from 250ms; default: 1s"
    )
    top.add_argument("--ascii", action="store_true", help="use ASCII characters only")
    top.add_argument(
        "--theme", choices=["dark", "light", "16", "none"],
        help="colours: 16 uses those of the terminal; default: as the terminal can; NO_COLOR turns them off",
    )  # fmt: skip
    _add_client_options(top, timeout=5.0)
    top.set_defaults(run=_top, parser=top)


def _configuration(options: argparse.Namespace) -> Config:
    from pulsed import log

    config = _load(options)
    log.setup(config.log.level, config.log.format)
    return config


def _load(options: argparse.Namespace) -> Config:
    from pulsed.config.load import FLAGS, load

    flags = {key: value for key in FLAGS if (value := getattr(options, key, None)) is not None}
    return load(_file(options), options.overrides, os.environ, flags)


def _file(options: argparse.Namespace) -> Path | None:
    return Path(options.config_file) if options.config_file else None


def _serve(options: argparse.Namespace) -> int:
    from pulsed.commands.serve import serve
    from pulsed.config.load import file_of

    return serve(_configuration(options), lambda: _load(options), file_of(_file(options), os.environ))


def _adapter(options: argparse.Namespace) -> int:
    from pulsed.commands.adapter import adapter

    return adapter(_configuration(options))


def _snapshot(options: argparse.Namespace) -> int:
    from pulsed.commands.snapshot import snapshot

    if options.columns is not None and options.format != "csv":
        options.parser.error("--columns needs --format csv")
    return snapshot(_configuration(options), options.format, options.columns or "all", sys.stdout)


def _export(options: argparse.Namespace) -> int:
    from pulsed.commands.export import export

    with contextlib.suppress(KeyboardInterrupt):
        export(_configuration(options), options.columns, sys.stdout, options.schema)
    return 0


def _record(options: argparse.Namespace) -> int:
    from pulsed.commands.record import record

    return record(_configuration(options), options.file, seconds=options.duration, ticks=options.ticks)


def _doctor(options: argparse.Namespace) -> int:
    from pulsed.commands.doctor import doctor

    return doctor(_configuration(options), options.format, sys.stdout, options.exporter_version)


def _counters(options: argparse.Namespace) -> int:
    from pulsed.commands.counters import counters

    return counters(options.exporter_version, options.model, sys.stdout)


def _health(options: argparse.Namespace) -> int:
    from pulsed.commands.health import forget, health

    urls = options.urls or ["http://localhost:9401"]
    if options.forget is not None:
        if len(urls) > 1:
            options.parser.error("--forget needs one URL")
        forget(urls[0], options.forget, options.node, sys.stdout, timeout=options.timeout, ca_file=options.ca_file)
        return 0
    if options.node is not None:
        options.parser.error("--node needs --forget")
    return health(urls, options.format, sys.stdout, timeout=options.timeout, ca_file=options.ca_file)


def _job(options: argparse.Namespace) -> int:
    from pulsed.commands.daemon_client import clients_of
    from pulsed.commands.job import job, jobs

    clients = clients_of(options.url, options.nodes, timeout=options.timeout, ca_file=options.ca_file)
    if options.id is not None:
        job(clients, options.id, options.format, sys.stdout, sys.stdin)
        return 0
    if options.format not in ("text", "json"):
        options.parser.error(f"--format {options.format} needs an ID")
    jobs(clients, options.format, sys.stdout)
    return 0


def _top(options: argparse.Namespace) -> int:
    from pulsed.commands.top.run import theme_of, top

    own = _own_arguments(options)
    if options.urls and own:
        options.parser.error(f"{own[0].partition('=')[0]} is for an own source: leave out the URL")
    if options.interval < 0.25:
        options.parser.error("--interval is at least 250ms")
    shown = (options.gpus or "").split(",")
    is_own = getattr(options, "source.kind") is not None

    def local_urls() -> Sequence[str]:
        if is_own:
            return ()
        if not own and not any(name.startswith("PULSED_") for name in os.environ):
            return ("http://localhost:9401",)
        from pulsed.commands.top.targets import local_urls

        config = _load(options)
        return local_urls(config.listen, config.web.prefix)

    return top(
        options.urls,
        own_arguments=own,
        local_urls=local_urls,
        gpus=() if shown[0] in ("", "all") else shown,
        interval=options.interval,
        timeout=options.timeout,
        ca_file=options.ca_file,
        theme=theme_of(os.environ, options.theme, is_terminal=sys.stdout.isatty()),
        ascii=options.ascii,
        is_once=options.once,
    )


def _own_arguments(options: argparse.Namespace) -> list[str]:
    """Return the arguments of the daemon of an own source, which are those of `top`."""
    pairs = [
        ("--config.file", options.config_file),
        ("--source", getattr(options, "source.kind")),
        ("--log.level", getattr(options, "log.level")),
        *(("--set", each) for each in options.overrides),
    ]
    return [f"{name}={value}" for name, value in pairs if value is not None]


def _rules(options: argparse.Namespace) -> int:
    from pulsed.commands.rules import rules
    from pulsed.present.promql.alert_text import RUNBOOK
    from pulsed.present.promql.document import KubernetesObject
    from pulsed.present.promql.rule_set import RuleSelection
    from pulsed.present.promql.rule_types import IdentityLabels

    identity = IdentityLabels(options.by) if options.by else IdentityLabels()
    given = {name: value for name in ("namespace", "labels", "name") if (value := getattr(options, name)) is not None}
    if given and options.format != "kubernetes":
        options.parser.error(f"--{next(iter(given))} needs --format kubernetes")
    kubernetes = KubernetesObject(**given) if options.format == "kubernetes" else None
    selection = RuleSelection(
        options.kind,
        options.metrics,
        identity,
        kubernetes,
        exclude=tuple(options.exclude),
        runbook=options.runbook_url or RUNBOOK,
    )
    return rules(_configuration(options), selection, options.output, sys.stdout)


def _check_config(options: argparse.Namespace) -> int:
    from pulsed.commands.check_config import check_config

    return check_config(options.file, options.web_config_file, sys.stdout)
