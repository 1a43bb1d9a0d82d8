"""Documents of the API, checked against the schemas of their models."""

from __future__ import annotations

import json
from functools import cache

import jsonschema_rs

from pulsed.present.api.schema import DocumentModel


def has_shape(model: type[DocumentModel], document: object) -> bool:
    """Return whether a document is exactly of its schema, and can be sent. Raises for what is wrong."""
    json.dumps(document, allow_nan=False)
    _validator(model).validate(document)
    return True


@cache
def _validator(model: type[DocumentModel]) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(model.model_json_schema(mode="serialization"))
