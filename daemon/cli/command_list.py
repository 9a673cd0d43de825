"""A group of commands whose help has whole sentences."""

import click


class CommandGroup(click.Group):
    """A group that lists its commands with the first sentence of each, which is never cut."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and their first sentences."""
        rows = [
            (name, command.get_short_help_str(_UNCUT))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


_UNCUT = 1_000
"""More characters than a sentence has."""
