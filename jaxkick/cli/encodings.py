"""Bytes as text."""

import codecs

from jaxkick.cli.errors import UsageError

__all__ = ["decode"]

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def decode(content: bytes, encoding: str | None, source: str) -> str:
    """The text of a file, without the mark of its encoding.

    Args:
        content: the bytes.
        encoding: their encoding; if `None` that of the mark that they begin with, else UTF-8.
        source: the name of the file, for the error.

    Raises:
        UsageError: if there is no such encoding.
        ValueError: if the bytes are not text in it, with the line.
    """
    chosen = encoding or next(
        (name for mark, name in _MARKS.items() if content[: len(mark)] == mark), "utf-8"
    )
    try:
        text = content.decode(chosen)
    except LookupError:
        raise UsageError(
            f"--encoding is {encoding!r}, which is unknown; try utf-8, cp1252, latin-1 or utf-16."
        ) from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{source!r} is not text in {chosen}: byte {error.start} on line {line} does not fit; "
            "name its encoding, such as --encoding cp1252 for older files from Windows."
        ) from None
    if "\0" in text:
        raise ValueError(
            f"{source!r} holds zero bytes, so that it is not text in {chosen}; name its encoding "
            "with --encoding, such as utf-16, or save it as CSV."
        )
    return text.removeprefix("\ufeff")
