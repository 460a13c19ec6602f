"""The command line: `jaxkick`, or `python -m jaxkick`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from jaxkick.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        sys.stderr.write(
            f"error: the command line needs {error.name}, which is not installed. Install it with "
            '`pip install "jaxkick[cli]"`.\n'
        )
        sys.exit(2)
    app()
