"""The base of all models: fields have Python's names here and the API's names on the wire, and unknown fields are kept."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A JSON object of the API. Fields that this version does not know are attributes, too, and in `model_extra`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", protected_namespaces=())
