"""Keep compiled programs on disk between processes. JAX is imported only when needed."""

import os
from pathlib import Path

__all__ = ["LEAST_SECONDS", "enable_compilation_cache", "program_folder"]

# Keep all programs: a session runs hundreds of small ones, which together take seconds.
LEAST_SECONDS = 0.0


def enable_compilation_cache(folder: str | os.PathLike | None = None) -> Path:
    """Keep compiled programs on disk, so that later processes need not compile them again.

    This changes JAX's configuration for all programs of the process. Call it before the first
    computation. Programs are compiled again after an update of JAX. The folder may be deleted at
    any time.

    Args:
        folder: where to keep the programs; `jaxkick/programs` in the user's cache folder if
            `None` (`$XDG_CACHE_HOME`, or `~/.cache`).

    Returns:
        The folder.
    """
    import jax

    path = program_folder() if folder is None else Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
    return path


def program_folder() -> Path:
    """The folder of compiled programs in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "jaxkick", "programs")
