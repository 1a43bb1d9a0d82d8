"""`pulsed rules`: prints recording and alerting rules for Prometheus, or writes them to a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pulsed.commands.argument_types import label_names, label_pairs, object_name
from pulsed.commands.command_parser import CommandParser
from pulsed.commands.options import add_config_options, configuration
from pulsed.errors import PulsedError


class RulesNotWritten(PulsedError):
    """The file of the rules cannot be written."""


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    add_config_options(parser)
    parser.add_argument("--kind", choices=["recording", "alerting", "all"], default="all")
    parser.add_argument(
        "--for", dest="metrics", choices=["dcgm", "pulsed", "both"], default="both",
        help="based on dcgm-exporter's DCGM_FI_* series, without a daemon, or on the metrics of pulsed",
    )  # fmt: skip
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="NAME", help="leave out an alert or a group (repeatable)"
    )
    parser.add_argument("--runbook-url", metavar="URL", help="the HEALTH.md that the alerts link to")
    parser.add_argument(
        "--by", type=label_names, metavar="LABELS", help="labels that identify a GPU on DCGM_FI_* series: UUID,gpu,..."
    )
    parser.add_argument("--format", choices=["prometheus", "kubernetes"], default="prometheus")
    parser.add_argument("--name", type=object_name, help="name of the PrometheusRule of --format kubernetes")
    parser.add_argument("--namespace", type=object_name, help="its namespace")
    parser.add_argument("--labels", type=label_pairs, metavar="NAME=VALUE,...", help="its labels: release=prometheus")
    parser.add_argument("--output", metavar="FILE", default="-", help="write to this file instead of stdout")


def run(options: argparse.Namespace) -> int:
    """Print or write the rules; return the exit code. Raises `RulesNotWritten` if the file cannot be written."""
    from pulsed.present.promql.alert_text import RUNBOOK
    from pulsed.present.promql.document import KubernetesObject
    from pulsed.present.promql.rule_set import RuleSelection, document
    from pulsed.present.promql.rule_types import IdentityLabels

    given = {name: value for name in ("namespace", "labels", "name") if (value := getattr(options, name)) is not None}
    if given and options.format != "kubernetes":
        options.parser.error(f"--{next(iter(given))} needs --format kubernetes")
    config = configuration(options)
    selection = RuleSelection(
        options.kind,
        options.metrics,
        IdentityLabels(options.by) if options.by else IdentityLabels(),
        KubernetesObject(**given) if options.format == "kubernetes" else None,
        exclude=tuple(options.exclude),
        runbook=options.runbook_url or RUNBOOK,
        scale_target=config.publish.scale_target,
    )
    text = document(config.compute_settings(), selection)
    if options.output in ("", "-"):
        sys.stdout.write(text)
        return 0
    try:
        Path(options.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RulesNotWritten(f"cannot write {options.output}: {error.strerror}", "Name another file") from None
    return 0
