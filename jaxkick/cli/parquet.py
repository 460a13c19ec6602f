"""Parquet files as columns."""

import io
import unicodedata
from typing import Any

__all__ = ["read_parquet"]


def read_parquet(content: bytes, source: str) -> tuple[dict[str, Any], None]:
    """The columns of a Parquet file: texts as CSV has them, all else as arrow arrays.

    Args:
        content: the file's bytes.
        source: its name, for the errors.

    Returns:
        Columns by name, and nothing in place of lines.

    Raises:
        ImportError: if pyarrow is not installed.
        ValueError: if the file cannot be read.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ImportError(
            'Parquet files need pyarrow; install it with `pip install "jaxkick[cli]"`.'
        ) from error
    try:
        table = parquet.read_table(io.BytesIO(content))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{source!r} cannot be read as Parquet ({error}).") from error
    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in columns:
            raise ValueError(f"{source!r} has the column {name!r} twice; rename one of them.")
        try:
            columns[name] = _plain(column)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise ValueError(
                f"{source!r} cannot be read as Parquet: its column {name!r} is damaged ({error})."
            ) from error
    return columns, None


def _plain(column: Any) -> Any:
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_null(kind):
        return ("",) * len(column)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(test(kind) for test in texts):
        return column
    cells = column.to_pylist()
    return tuple(
        "" if cell is None else unicodedata.normalize("NFC", cell).strip() for cell in cells
    )
