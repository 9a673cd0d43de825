"""The command `muster`, also as `python -m daemon`."""

from daemon.package_check import refuse_foreign_packages


def main() -> None:
    """Run the command, if the packages that it would import are those of muster."""
    refuse_foreign_packages()
    from daemon.cli.app import main as run  # Nothing of muster is imported before the check.

    run()


if __name__ == "__main__":
    main()
