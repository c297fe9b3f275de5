"""The command line, as ``python -m manykernels.cli``."""

from . import main

if __name__ == "__main__":
    main()
