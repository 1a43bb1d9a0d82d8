"""Parts of alert texts, as Prometheus templates.

What labels do not have (model, owner, measured values) is looked up when an alert fires. An expression never depends on
such a look-up: a join that finds nothing would drop the alert.
"""

from __future__ import annotations

RUNBOOK = "docs/health.md"
"""The document that `runbook_url` leads to, where no URL is known."""


def lookup(promql: str, *labels: str) -> str:
    """Return the template of a query; each `%q` is the value of one of the labels, quoted.

    >>> lookup("up{job=%q}", "job")
    'printf `up{job=%q}` $labels.job | query'
    """
    if not labels:
        return f"query `{promql}`"
    return f"printf `{promql}` {' '.join(f'$labels.{label}' for label in labels)} | query"


def of_board(metric: str, *matchers: str, more: str = "") -> str:
    """Return the look-up of a metric of the alert's board; `more` is the rest of the expression.

    >>> of_board("pulsed_gpu_xid_last_code", more=" > 0")
    'printf `pulsed_gpu_xid_last_code{node=%q,uuid=%q} > 0` $labels.node $labels.uuid | query'
    """
    return lookup(f"{metric}{{{','.join(('node=%q', 'uuid=%q', *matchers))}}}{more}", "node", "uuid")


_MODEL = (
    "{{ with "
    + of_board("last_over_time(pulsed_gpu_info", more="[1d])")
    + ' }} ({{ . | first | label "model" }}){{ end }}'
)
GPU = "GPU {{ $labels.gpu }}{{ with $labels.mig_id }} instance {{ . }}{{ end }} of {{ $labels.node }}" + _MODEL
"""Index, MIG instance, node and model of a GPU of pulsed."""

_OWNER_LABELS = (
    "{{ with .Labels.pod }} pod {{ . }}{{ end }}"
    "{{ with .Labels.namespace }} in {{ . }}{{ end }}"
    "{{ with .Labels.job_id }} job {{ . }}{{ end }}{{ if eq .Labels.kind `process` }} process{{ end }}"
    "{{ with .Labels.user }} of {{ . }}{{ end }}."
)


def _owners(over: str = "{}") -> str:
    """Return the template of the owners of a GPU or MIG instance, or of all instances of a board, in order."""
    query = over.format("pulsed_gpu_owner_info{node=%q,uuid=%q,mig_id=~%q}")
    return f"printf `{query}` $labels.node $labels.uuid (or $labels.mig_id `.*`) | query | sortByLabel `kind`"


OWNER = f"{{{{ range {_owners()} }}}} Owner:{_OWNER_LABELS}{{{{ end }}}}"
"""A sentence per owner; empty if none is known."""

LAST_OWNER = (
    f'{{{{ define "owner" }}}}{_OWNER_LABELS}{{{{ end }}}}'
    f'{{{{ range {_owners()} }}}} Owner:{{{{ template "owner" . }}}}{{{{ else }}}}'
    f"{{{{ range {_owners('last_over_time({}[1h])')} }}}} Owner within the last hour:"
    '{{ template "owner" . }}{{ end }}{{ end }}'
)
"""The same, but a GPU without an owner has those of the last hour: a fault may have ended the job."""


def since(promql: str, *labels: str) -> str:
    """Return the template of ` (since TIME)`, from a query of Unix seconds; empty if it finds nothing."""
    return f"{{{{ with {lookup(promql, *labels)} }}}} (since {_TIME}){{{{ end }}}}"


def last_seen(series: str, *labels: str) -> str:
    """Return the template of `Last seen TIME. `, from the samples of a series within a day; empty without samples."""
    query = lookup(f"max(max_over_time(timestamp({series})[1d:1m]))", *labels)
    return f"{{{{ with {query} }}}}Last seen {_TIME}. {{{{ end }}}}"


_TIME = '{{ (. | first | value | toTime).UTC.Format "2006-01-02 15:04" }} UTC'

_OF_DAEMON = ("job", "instance")
DAEMON = (
    "pulsed at {{ $labels.instance }}{{ with "
    + lookup("group by (node) (last_over_time(pulsed_gpu_info{job=%q,instance=%q}[1d]))", *_OF_DAEMON)
    + ' }} ({{ if eq (len .) 1 }}{{ . | first | label "node" }}{{ else }}{{ len . }} nodes{{ end }}){{ end }}'
)
"""Address of a daemon, and the node whose GPUs it reports, or the number of nodes."""

UNMONITORED = (
    "{{ with "
    + lookup("count(group by (node, gpu, uuid) (last_over_time(pulsed_gpu_info{job=%q,instance=%q}[1d])))", *_OF_DAEMON)
    + " }}Its {{ . | first | value }} GPUs are not monitored. {{ end }}"
)
"""A sentence about the GPUs that a daemon reported within a day; empty without GPUs."""
