"""`python -m daemon` is `muster`."""

from daemon.cli.app import main

main()
