"""`muster completion`: shell completion."""

import click
from click.shell_completion import get_completion_class

from daemon.cli.output import print_lines

VARIABLE = "_MUSTER_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script by which a shell completes commands and options.

    Examples:

    \b
        eval "$(muster completion bash)"
        eval "$(muster completion zsh)"
        muster completion fish > ~/.config/fish/completions/muster.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # click checks the version of bash, which may not be installed.
    completer = kind(context.find_root().command, {}, "muster", VARIABLE)
    script: str = completer.source_template % completer.source_vars()
    print_lines(script.splitlines())
