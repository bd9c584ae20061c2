"""The command group, what all commands share, and the way in and out of the process."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import click

from agentflow_eval import __version__

PASSED, FAILED, NOTHING_TO_RUN, INTERRUPTED = 0, 1, 2, 130

Command = TypeVar("Command", bound=Callable[..., Any])


class Stop(click.ClickException):
    """Ends the command with a message and exit code 2."""

    exit_code = NOTHING_TO_RUN

    def show(self, file: Any = None) -> None:  # noqa: ARG002  # click's signature
        """Prints the message, one line for each problem."""
        click.echo(self.format_message(), err=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; None takes the arguments of the process.

    Returns:
        The exit code.
    """
    from agentflow_eval.errors import AgentflowEvalError, ReportError

    try:
        code = commands.main(None if argv is None else list(argv), prog_name="agentflow-eval", standalone_mode=False)
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except AgentflowEvalError as exc:
        click.echo(f"error: {exc}", err=True)
        return FAILED if isinstance(exc, ReportError) else NOTHING_TO_RUN
    return code if isinstance(code, int) else PASSED


def script() -> NoReturn:
    """The command as a process."""
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:  # who started the process has closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for good
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = main()
        sys.stdout.flush()
    except OSError as exc:  # standard output is full, or its reader went away
        if not isinstance(exc, BrokenPipeError):
            click.echo(f"error: {exc}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    _leave(code)


def _leave(code: int) -> NoReturn:
    stuck = [thread for thread in threading.enumerate() if thread.is_alive() and not thread.daemon]
    if len(stuck) > 1:  # an agent's thread that hangs must not keep the command alive
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agentflow-eval")
def commands() -> None:
    """Evaluate AI agents: eval sets and configs in JSON, reports for people and CI."""


def selection(command: Command) -> Command:
    """The options that select cases."""
    options = [
        click.option("--id", "ids", multiple=True, metavar="ID", help="Only the case with this id; repeatable."),
        click.option("--name", "names", multiple=True, metavar="NAME", help="Only cases of this name; repeatable."),
        click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only cases with this tag; all, if repeated."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


class Seconds(click.FloatRange):
    """A number of seconds that ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        return seconds if math.isfinite(seconds) else self.fail(f"{value!r} is not a finite number.", param, ctx)
