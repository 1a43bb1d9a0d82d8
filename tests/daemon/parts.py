"""What features are made of, without collectors and a page."""

from __future__ import annotations

from pulsed.config.configuration import Config
from pulsed.daemon.feature import Feature, FeatureParts
from pulsed.daemon.features import FeatureSet
from pulsed.model.target_store import TargetStore
from pulsed.owners.attribution import Attribution
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry


def feature_parts(store: TargetStore, config: Config, *before: type[Feature]) -> FeatureParts:
    """The parts of a feature, with other features before it."""
    features: dict[type[Feature], Feature] = {}
    parts = FeatureParts(config, store, Attribution(), Pages(store, Telemetry(store)), features)
    for feature in before:
        features[feature] = feature(parts)
    return parts


def features_before_restore(store: TargetStore, config: Config, *kinds: type[Feature]) -> FeatureSet:
    """Return features, made in this order."""
    features = FeatureSet()
    parts = FeatureParts(config, store, Attribution(), Pages(store, Telemetry(store)), features.by_class)
    for kind in kinds:
        features.add(kind(parts))
    return features
