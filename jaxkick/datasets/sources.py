"""Where public data comes from: its licence, its files, and a cache with checksums."""

import gzip
import hashlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["FOLDER_VARIABLE", "SOURCES", "Source", "open_text"]

FOLDER_VARIABLE = "JAXKICK_DATA"
"""The environment variable that names a folder with the files."""


class Source(NamedTuple):
    """A public data set.

    Attributes:
        title: what it is.
        licence: under which terms it is published.
        citation: whom to name.
        url: the folder of its files at the source.
    """

    title: str
    licence: str
    citation: str
    url: str

    def __repr__(self) -> str:
        return f"{self.title}\nlicence: {self.licence}\nsource: {self.citation}, {self.url}"


SOURCES = {
    "nba": Source(
        "Games of the NBA and its forerunners since 1946",
        "CC BY 4.0",
        "FiveThirtyEight, NBA Elo",
        "https://projects.fivethirtyeight.com/nba-model/",
    ),
    "atp": Source(
        "Tennis matches of men: tour, qualifying and challengers, futures",
        "CC BY-NC-SA 4.0",
        "Jeff Sackmann, Tennis Abstract",
        "https://raw.githubusercontent.com/JeffSackmann/tennis_atp/master/",
    ),
    "football": Source(
        "International football matches since 1872",
        "CC0 1.0",
        "Mart Jürisoo, international_results",
        "https://raw.githubusercontent.com/martj42/international_results/master/",
    ),
    "starcraft": Source(
        "Games of StarCraft II, Wings of Liberty and Heart of the Swarm",
        "not stated",
        "S. Chen and T. Joachims, Modeling Intransitivity in Matchup Data, WSDM 2016",
        "https://raw.githubusercontent.com/csinpi/blade_chest/"
        "adb65d359e6a2ad1296cc7adfd51d852e9fb8443/datasets/starcraft/",
    ),
}
"""The sources by the name of their loader."""


def open_text(source: str, file: str, folder: str | os.PathLike | None) -> str:
    """The text of a file: of a folder if there is one, else from the source by way of a cache.

    The sources publish no checksums. That of the first download is kept beside the file, and
    the file is checked against it whenever it is read.

    Args:
        source: the name of the source.
        file: the name of the file at the source.
        folder: a folder with the file, packed by gzip or not; if `None` that of the
            environment variable, if it is set.

    Raises:
        FileNotFoundError: if the folder lacks the file.
        ImportError: if the file has to be downloaded and pooch is not installed.
        ValueError: if a file in the cache has changed.
    """
    folder = os.environ.get(FOLDER_VARIABLE) if folder is None else folder
    if folder:
        return _read_local(Path(folder), file)
    return _download(SOURCES[source], file).read_text(encoding="utf-8")


def _read_local(folder: Path, file: str) -> str:
    plain, packed = folder / file, folder / f"{file}.gz"
    if packed.exists():
        return gzip.decompress(packed.read_bytes()).decode()
    if plain.exists():
        return plain.read_text(encoding="utf-8")
    raise FileNotFoundError(
        f"the folder {str(folder)!r} has neither {file!r} nor '{file}.gz'; put it there, or leave "
        f"out `folder` and unset {FOLDER_VARIABLE} to download it."
    )


def _download(source: Source, file: str) -> Path:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            "downloads need pooch; install it with `pip install 'jaxkick[datasets]'`, or pass "
            "`folder`."
        ) from error
    cache = Path(pooch.os_cache("jaxkick"))
    path, mark = cache / file, cache / f"{file}.sha256"
    if not (path.exists() and mark.exists()):
        sys.stderr.write(f"{source!r}\n")
        pooch.retrieve(source.url + file, known_hash=None, fname=file, path=cache)
        mark.write_text(_checksum(path))
    if _checksum(path) != mark.read_text().strip():
        raise ValueError(
            f"{str(path)!r} is no longer what was downloaded: its checksum differs from that in "
            f"{mark.name!r}; remove both to download it again."
        )
    return path


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
