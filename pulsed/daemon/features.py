"""The features of the daemon, in the order in which they take ticks and stand on the metrics page.

A feature may use those above it. A new one is a module or folder and a line here.
"""

from __future__ import annotations

from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.events import EventsFeature
from pulsed.daemon.feature import Feature
from pulsed.daemon.findings import FindingsFeature
from pulsed.daemon.health_log import HealthChanges
from pulsed.daemon.history import HistoryFeature
from pulsed.daemon.host_watch import HostWatch
from pulsed.daemon.job_host_usage import JobHostReader
from pulsed.daemon.node_conditions import NodeConditions
from pulsed.daemon.notify import Notify
from pulsed.daemon.otlp_push import OtlpPush
from pulsed.daemon.state_folder import StateFolder

FEATURES: tuple[type[Feature], ...] = (
    HealthChanges,
    HostWatch,
    HistoryFeature,
    EventsFeature,
    AccountsFeature,
    FindingsFeature,
    Notify,
    JobHostReader,
    StateFolder,
    OtlpPush,
    NodeConditions,
)
