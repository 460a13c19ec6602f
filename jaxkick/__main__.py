"""Run the command line with `python -m jaxkick`."""

from jaxkick.cli import main

if __name__ == "__main__":
    main()
