"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["written_whole"]


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, which takes its name when all of it is on the disk.

    Until then a file of that name stays as it is, whatever happens: an error takes the draft
    away, and a killed process leaves it beside the file, its name ending in `.part`.

    Args:
        path: the file; one that is there is replaced.

    Raises:
        FileNotFoundError: if there is no such folder.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{str(path)!r} cannot be written: there is no such folder.")
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(draft, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
