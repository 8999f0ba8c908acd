"""Bloom filters of a Parquet file as a glance at its end shows them."""

from io import BytesIO

import numpy as np
import pyarrow as pa

from icectl.files.parquet.data_file import open_parquet
from icectl.files.parquet.glance import glance_at, stored_columns
from icectl.files.parquet.value_filters import Mask, Sought


class AtAGlance:
    """The filters of columns whose field ids are below ten."""

    def __init__(self, content: bytes) -> None:
        self.columns = stored_columns(open_parquet(BytesIO(content), ()), range(10))
        glance = glance_at(BytesIO(content))
        assert glance is not None
        self.glance = glance

    def may_have(self, group: int, field_id: int, values: pa.Array) -> Mask:
        asked = np.ones(len(values), np.bool_)
        if field_id not in self.columns:
            return asked
        return self.glance.those_of(group, self.columns[field_id], Sought(values), asked)
