"""The command line: `pulsed serve`, `snapshot`, `export`, `record`, `doctor`, `health`, `rules`,
`check-config`.

Every command imports what it needs when it runs: `pulsed --version` costs nothing, and `snapshot` needs no server.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pulsed import __version__
from pulsed.errors import PulsedError, UsageError

if TYPE_CHECKING:
    from pulsed.config import Config

EPILOG = "Precedence: flag, environment (PULSED_<KEY>__<SUBKEY>), file, default. Exit codes: 0 fine, 1 failed, 2 usage."


class _ArgumentParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", f"See `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 fine, 1 failed at run time, 2 wrong usage or configuration."""
    try:
        options = argument_parser().parse_args(arguments)
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except PulsedError as error:
        print(f"pulsed: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read us has read enough (`| head`). Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _ArgumentParser(prog="pulsed", description="Trustworthy GPU metrics from NVIDIA DCGM.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"pulsed {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_ArgumentParser)

    common = _ArgumentParser(add_help=False)
    common.add_argument(
        "--config.file", "--config", dest="config_file", metavar="FILE", help="configuration file (YAML)"
    )
    common.add_argument("--source", metavar="KIND", help="short for --set source.kind=KIND")
    common.add_argument(
        "--set", dest="overrides", metavar="KEY=VALUE", action="append", default=[],
        help="any configuration key, such as source.interval=5s; the value is YAML; repeatable",
    )  # fmt: skip
    common.add_argument("--gpus", metavar="LIST", help="show these only: indexes, UUIDs, GPU:instance, all or none")
    common.add_argument("--show-all", dest="gpus", action="store_const", const="all", help="short for --gpus all")
    common.add_argument("--log.level", dest="log_level", choices=["debug", "info", "warn", "error"])
    common.add_argument("--log.format", dest="log_format", choices=["logfmt", "json"])

    serve = commands.add_parser("serve", parents=[common], help="run the daemon")
    serve.add_argument(
        "--web.listen-address", dest="listen", metavar="ADDRESS", action="append", help=":9401; repeatable"
    )
    serve.add_argument(
        "--web.telemetry-path", dest="telemetry_path", metavar="PATH", help="where the page is: /metrics"
    )
    serve.add_argument("--web.max-requests", dest="max_requests", type=int, metavar="N", help="at a time; 0: no limit")
    serve.add_argument(
        "--web.enable-lifecycle", dest="enable_lifecycle", action="store_true", default=None,
        help="allow POST /-/reload",
    )  # fmt: skip
    serve.add_argument("--web.config.file", dest="web_config_file", metavar="FILE", help="TLS, users, headers (YAML)")
    serve.add_argument(
        "--web.systemd-socket", dest="systemd_socket", action="store_true", default=None,
        help="serve on the sockets that systemd hands over",
    )  # fmt: skip
    serve.set_defaults(run=_serve)

    snapshot = commands.add_parser("snapshot", parents=[common], help="print one tick and exit")
    snapshot.add_argument("--format", choices=["table", "json", "csv", "prometheus"], default="table")
    snapshot.add_argument("--columns", default="all", help="for --format csv: default, all, or names with commas")
    snapshot.set_defaults(run=_snapshot)

    export = commands.add_parser("export", parents=[common], help="print every tick as CSV until the source ends")
    export.add_argument("--columns", default="default", help="default, all, or names with commas")
    export.add_argument(
        "--schema", choices=["pulsed", "kempnerpulse"], default="pulsed",
        help="whose columns and units; kempnerpulse implies compute.workload.profile=kempnerpulse",
    )  # fmt: skip
    export.set_defaults(run=_export)

    record = commands.add_parser(
        "record", parents=[common], help="keep what the source says, for replay, until the source ends"
    )
    record.add_argument("file", metavar="FILE", help="made or continued; gzipped if named .gz; - is stdout")
    record.add_argument("--duration", type=_duration, metavar="TIME", help="stop after so long, such as 60s")
    record.add_argument("--ticks", type=_count, metavar="N", help="stop after so many, of all targets together")
    record.set_defaults(run=_record)

    doctor = commands.add_parser("doctor", parents=[common], help="tell which sources work here, and what they lack")
    doctor.add_argument("--format", choices=["table", "json"], default="table")
    doctor.set_defaults(run=_doctor)

    health = commands.add_parser(
        "health",
        help="tell what is wrong with the GPUs and what to do",
        description="Asks a running pulsed. Exit codes: 0 ok, 1 warn or hot, 2 crit, 3 unknown.",
    )
    health.add_argument("url", metavar="URL", nargs="?", default="http://localhost:9401", help="default: %(default)s")
    health.add_argument("--format", choices=["table", "json", "line"], default="table", help="line: as Nagios wants it")
    health.add_argument("--timeout", type=_duration, metavar="TIME", default=10.0, help="such as 5s; default: 10s")
    health.add_argument("--ca-file", dest="ca_file", metavar="FILE", help="certificates to trust, for https")
    health.set_defaults(run=_health)

    rules = commands.add_parser("rules", parents=[common], help="print recording and alerting rules for Prometheus")
    rules.add_argument("--kind", choices=["recording", "alerting", "all"], default="all")
    rules.add_argument(
        "--for", dest="metrics", choices=["dcgm", "pulsed", "both"], default="both",
        help="start from dcgm-exporter's DCGM_FI_* series, which need no daemon, or from pulsed's own metrics",
    )  # fmt: skip
    rules.add_argument("--by", metavar="LABELS", help="that tell GPUs apart on DCGM_FI_* series: UUID,gpu,...")
    rules.add_argument("--format", choices=["prometheus", "kubernetes"], default="prometheus")
    rules.add_argument("--name", default="pulsed", help="of the PrometheusRule, for --format kubernetes")
    rules.add_argument("--namespace", default="", help="of it")
    rules.add_argument("--labels", type=_labels, default={}, metavar="NAME=VALUE,...", help="of it: release=prometheus")
    rules.add_argument("--output", metavar="FILE", default="-", help="write here rather than to stdout")
    rules.set_defaults(run=_rules)

    check = commands.add_parser("check-config", help="validate a configuration file")
    check.add_argument("file", metavar="FILE", nargs="?")
    check.add_argument("--web.config.file", dest="web_config_file", metavar="FILE", help="a web configuration file")
    check.set_defaults(run=_check_config)
    return parser


def _configure(options: argparse.Namespace) -> Config:
    from pulsed import log

    config = _load(options)
    log.setup(config.log.level, config.log.format)
    return config


def _load(options: argparse.Namespace) -> Config:
    from pulsed.config.load import load

    flags: dict[str, object] = {
        "source.kind": options.source,
        "gpus": options.gpus,
        "log.level": options.log_level,
        "log.format": options.log_format,
        "listen": getattr(options, "listen", None),
        "telemetry_path": getattr(options, "telemetry_path", None),
        "max_requests": getattr(options, "max_requests", None),
        "web.config_file": getattr(options, "web_config_file", None),
        "web.systemd_socket": getattr(options, "systemd_socket", None),
        "enable_lifecycle": getattr(options, "enable_lifecycle", None),
    }
    return load(
        _file(options),
        options.overrides,
        os.environ,
        {key: value for key, value in flags.items() if value is not None},
    )


def _file(options: argparse.Namespace) -> Path | None:
    return Path(options.config_file) if options.config_file else None


def _serve(options: argparse.Namespace) -> int:
    from pulsed.commands.serve import serve
    from pulsed.config.load import file_of

    return serve(_configure(options), lambda: _load(options), file_of(_file(options), os.environ))


def _snapshot(options: argparse.Namespace) -> int:
    from pulsed.commands.snapshot import snapshot

    return snapshot(_configure(options), options.format, options.columns, sys.stdout)


def _export(options: argparse.Namespace) -> int:
    from pulsed.commands.snapshot import export

    with contextlib.suppress(KeyboardInterrupt):
        export(_configure(options), options.columns, sys.stdout, options.schema)
    return 0


def _record(options: argparse.Namespace) -> int:
    from pulsed.commands.record import record

    return record(_configure(options), options.file, seconds=options.duration, ticks=options.ticks)


def _duration(text: str) -> float:
    from pulsed.config.values import duration

    try:
        return duration(float(text) if text.replace(".", "", 1).isdecimal() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}; give a duration such as 60s or 1h30m") from None


def _count(text: str) -> int:
    if not text.isdecimal() or (number := int(text)) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return number


def _doctor(options: argparse.Namespace) -> int:
    from pulsed.commands.doctor import doctor

    return doctor(_configure(options), options.format, sys.stdout)


def _health(options: argparse.Namespace) -> int:
    from pulsed.commands.health import checkup

    return checkup(options.url, options.format, sys.stdout, timeout=options.timeout, ca_file=options.ca_file)


def _rules(options: argparse.Namespace) -> int:
    from pulsed.present.promql.document import KubernetesObject
    from pulsed.present.promql.rule_set import RuleSelection, write
    from pulsed.present.promql.rule_types import IdentityLabels

    identity = IdentityLabels(tuple(options.by.split(","))) if options.by else IdentityLabels()
    target = KubernetesObject(options.namespace, options.labels, options.name)
    kubernetes = target if options.format == "kubernetes" else None
    choice = RuleSelection(options.kind, options.metrics, identity, kubernetes)
    write(_configure(options).compute_settings(), choice, options.output, sys.stdout)
    return 0


def _labels(text: str) -> dict[str, str]:
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if not all(pairs) or not all(pairs.values()):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value,name=value")
    return pairs


def _check_config(options: argparse.Namespace) -> int:
    from pulsed.config.load import check

    if not options.file and not options.web_config_file:
        raise UsageError("pulsed check-config: no file is named", "See `pulsed check-config --help`")
    web_config_file = options.web_config_file
    if options.file:
        web_config_file = web_config_file or check(Path(options.file)).web.config_file
    if web_config_file:
        from pulsed.server.reloader import check as check_web

        check_web(Path(web_config_file))
    print("".join(f"{file}: fine\n" for file in (options.file, web_config_file) if file), end="")  # noqa: T201
    return 0
