"""`pulsed rules` and `pulsed check-config`: print or check files, without a source."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from pulsed.cli.arguments import configuration
from pulsed.config.configuration import Config, check, web_config_file
from pulsed.errors import ConfigError, PulsedError
from pulsed.present.promql.rule_set import RuleSelection, document
from pulsed.present.promql.rule_types import RUNBOOK, KubernetesObject
from pulsed.regular_file import is_readable_by_all
from pulsed.server.reloader import check as check_web


class RulesNotWritten(PulsedError):
    """The file of the rules cannot be written."""


def run_rules(options: argparse.Namespace) -> int:
    """Print or write the rules; return the exit code. Raises `RulesNotWritten` if the file cannot be written."""
    fields = {name: value for name in ("namespace", "labels", "name") if (value := getattr(options, name)) is not None}
    if fields and options.format != "kubernetes":
        options.parser.error(f"--{next(iter(fields))} needs --format kubernetes")
    config = configuration(options)
    selection = RuleSelection(
        options.kind,
        KubernetesObject(**fields) if options.format == "kubernetes" else None,
        exclude=tuple(options.exclude),
        runbook=options.runbook_url or _runbook(config),
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


def _runbook(config: Config) -> str:
    """Return where alerts link to: the document that the daemon serves, if its URL is known."""
    return f"{config.web.external_url.rstrip('/')}/docs/health" if config.web.external_url else RUNBOOK


def run_check_config(options: argparse.Namespace) -> int:
    """Print `FILE: valid` for each file; return the exit code.

    Raises `ConfigError` if a file is not valid; the message has one line per problem.
    """
    file = Path(options.file) if options.file else None
    web_file = Path(options.web_config_file) if options.web_config_file else file and web_config_file(file)
    if not file and not web_file:
        options.parser.error("no file is given")
    problems = []
    checks = ((file, partial(check, on_this_machine=not options.syntax_only)), (web_file, check_web))
    for name, check_file in checks:
        try:
            if name:
                checked = check_file(name)
                _warn(checked.unused if isinstance(checked, Config) else ())
                secrets = () if options.syntax_only else checked.secret_files(name)
                _warn(
                    f"{each}: it has secrets, and all users can read it; run chmod o-r on it"
                    for each in dict.fromkeys(secrets)
                    if is_readable_by_all(each)
                )
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    sys.stdout.writelines(f"{name}: valid\n" for name in (file, web_file) if name)
    return 0


def _warn(lines: Iterable[str]) -> None:
    sys.stderr.writelines(f"warning: {line}\n" for line in lines)
