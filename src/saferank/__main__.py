"""`python -m saferank` is the command line."""

from saferank.cli.app import main

if __name__ == "__main__":
    main()
