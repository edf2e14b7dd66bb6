"""``fighter completion``: commands and flags completed by the shell."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Literal

from .arguments import read_arguments
from .main import COMMANDS
from .options import CONFIG, setting_arguments


def completion(shell: Literal["bash"] = "bash") -> None:
    """Print a script that lets the shell complete commands and flags.

    Example: fighter completion bash > ~/.local/share/bash-completion/completions/fighter

    In zsh:
      autoload -U bashcompinit && bashcompinit && source <(fighter completion bash)

    Args:
        shell: bash, whose script zsh can read.
    """
    cases = "\n".join(
        f'    "{name}"*) words="{" ".join(sorted(words))}" ;;' for name, words in _words()
    )
    print(f"""_fighter() {{
  local typed="${{COMP_WORDS[*]:1:COMP_CWORD-1}} " words="{" ".join(COMMANDS)}"
  case "$typed" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _fighter fighter""")


def _words() -> Iterator[tuple[str, list[str]]]:
    """Yield what may follow each command."""
    for name, command in COMMANDS.items():
        target = getattr(import_module(command.module, __package__), command.attribute)
        if isinstance(target, dict):
            yield from ((f"{name} {sub} ", _flags(function)) for sub, function in target.items())
            yield f"{name} ", list(target)
        else:
            yield f"{name} ", _flags(target)


def _flags(function: Callable[..., Any]) -> list[str]:
    arguments = read_arguments(function)
    if any(argument.name == "settings" for argument in arguments):
        arguments = [a for a in arguments if a.name != "settings"]
        arguments += [*setting_arguments({}), CONFIG]
    return ["--help", *(a.flag for a in arguments if not a.positional)]
