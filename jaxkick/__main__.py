"""`python -m jaxkick`: the same program as `jaxkick`."""

from jaxkick.cli import main

if __name__ == "__main__":
    main()
