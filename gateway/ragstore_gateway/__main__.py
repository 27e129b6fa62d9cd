"""`python -m ragstore_gateway`: the same as the `ragstore-gateway` command."""

from ragstore_gateway.commands.cli import main

if __name__ == "__main__":
    main()
