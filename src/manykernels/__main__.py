"""The command line, as ``python -m manykernels``."""

from .cli import main

if __name__ == "__main__":
    main()
