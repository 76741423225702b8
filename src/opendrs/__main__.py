"""`python -m opendrs` is the command `opendrs`."""

from opendrs.cli.main import main

if __name__ == "__main__":
    main()
