"""Data frame: rows by name as a table of pandas, which is not installed with dynident."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynident.errors import NotSupported


def data_frame(rows: Mapping[str, Mapping[str, Any]]) -> Any:
    """A DataFrame with one row per name. Raises NotSupported, with the install line, where there is no pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise NotSupported("to_pandas() needs pandas, which is not installed: pip install pandas. to_dict() gives the same "
                           "without it.") from None
    return pd.DataFrame.from_dict(rows, orient="index")
