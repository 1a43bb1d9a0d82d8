"""What features are made of, without collectors and a page."""

from __future__ import annotations

from pulsed.config.configuration import ActiveConfig, Config
from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.daemon.features import FeatureSet
from pulsed.model.target_store import TargetStore
from pulsed.owners.attribution import Attribution
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry


def feature_parts(store: TargetStore, config: Config, *before: type[Feature]) -> FeatureParts:
    """The parts of a feature, with other features before it."""
    features: dict[type[Feature], Feature] = {}
    parts = FeatureParts(ActiveConfig(config), store, Attribution(), Pages(store, Telemetry(store)), features)
    for feature in before:
        features[feature] = feature(parts)
    return parts


def features_before_restore(store: TargetStore, config: Config | ActiveConfig, *kinds: type[Feature]) -> FeatureSet:
    """Return features, made in this order."""
    features, active = FeatureSet(), config if isinstance(config, ActiveConfig) else ActiveConfig(config)
    parts = FeatureParts(active, store, Attribution(), Pages(store, Telemetry(store)), features.by_class)
    for kind in kinds:
        features.add(kind(parts))
    return features
