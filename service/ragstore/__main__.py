"""`python -m ragstore`: the same as the `ragstore` command."""

from ragstore.cli import main

if __name__ == "__main__":
    main()
