"""`imitate completion`"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from contextlib import redirect_stdout
from io import StringIO
from typing import Literal

import tyro

from imitate.algorithms import ALGORITHMS, is_own
from imitate.commands.line import WORDS, CommandLine
from imitate.commands.option import Offers, Option
from imitate.commands.options import command
from imitate.commands.parsing import NamesAsked, by_name
from imitate.commands.table import COMMANDS, find
from imitate.errors import InputError

__all__ = ["completion"]

_SCRIPTS = {
    "bash": """\
_imitate() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        printf -v word %q "$word"
        COMPREPLY+=("$word")
    done < <(imitate completion bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -o default -F _imitate imitate
""",
    "zsh": """\
_imitate() {
    local -a found
    found=(${(f)"$(imitate completion zsh "${(j: :)words[1,CURRENT]}" 2>/dev/null)"})
    (( $#found )) && compadd -a found || _files
}
compdef _imitate imitate
""",
    "fish": """\
complete -c imitate -a '(imitate completion fish (commandline -cp) 2>/dev/null)'
""",
}
"""Each asks for the words that may follow; where there are none, the shell completes names of files."""


@command
def completion(
    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]],
    typed: tyro.conf.Positional[str | None] = None,
    /,
) -> int:
    """Print the script that completes commands, algorithms, options, environments and experts in a shell.

    bash: `eval "$(imitate completion bash)"` in ~/.bashrc; zsh: the same in ~/.zshrc, after compinit; fish:
    `imitate completion fish > ~/.config/fish/completions/imitate.fish`.

    Args:
        shell: the shell
        typed: a line as it is typed so far: print the words that may end it, which the script asks for
    """
    if typed is None:
        print(_SCRIPTS[shell], end="")
        return 0
    *before, last = _split(typed)
    # Behind `--env=` the value is typed.
    joined = last[: last.find("=") + 1] if last.startswith("--") else ""
    value = last.removeprefix(joined)
    words = _candidates([*before, joined[:-1]][1:] if joined else before[1:], value)
    found = [joined + word for word in dict.fromkeys(words) if word.startswith(value)]
    # Bash takes what stands behind the last colon or equals sign for a word of its own.
    told = max(last.rfind(":"), last.rfind("=")) + 1 if shell == "bash" else 0
    for word in found:
        print(word[told:])
    return 0


def _split(line: str) -> list[str]:
    """The words of a line; the last one is being typed, and may be empty."""
    # The bar stands for what is typed next: with it the last word is never empty, and an escaped blank is part of it.
    try:
        *before, last = shlex.split(f"{line}|")
    except ValueError:  # within quotes, there is nothing that we know
        return [line]
    return [*before, last[:-1]]


def _candidates(before: list[str], last: str) -> Iterable[str]:
    """Words that may follow those after `imitate`, if they begin with the last one."""
    if not before:
        return COMMANDS
    # The module of a learner of the user's own is only imported once the line has been entered.
    asked = None if any(map(is_own, before[1:2])) else _asked(before)
    if asked is None:
        return ()
    known, typed = by_name(asked.options), CommandLine(before).options[-1:]
    for name, words, _ in typed if not last.startswith("--") else ():
        _, option, switch = known.get(name, ("", None, None))
        if option is not None and switch is None and (option.greedy or not words):
            return _values(option, last)
    positional = [value for each in asked.options if each.positional for value in _values(each, last)]
    return (*asked.names, *positional, *known, "--help")


def _asked(words: list[str]) -> NamesAsked | None:
    try:
        with redirect_stdout(StringIO()):
            find(words[0])([*words[1:], WORDS])
    except NamesAsked as asked:
        return asked
    except (InputError, SystemExit):  # a mistake earlier in the line
        pass
    return None


def _values(option: Option, last: str) -> Iterable[str]:
    """Words that the option takes; none if it takes files, numbers or text."""
    if option.choices:
        return option.choices
    for note in option.notes:
        if isinstance(note, Offers):
            return note.words()
    if option.name == "env":
        return _environments(last)
    if option.name in ("expert", "spec", "subject", "intervene"):
        from imitate.experts import known_experts

        return known_experts()
    return ALGORITHMS if option.name in ("algorithms", "add") else ()


def _environments(last: str) -> list[str]:
    """The newest version of each environment; Atari's are only looked up if the word begins so."""
    import gymnasium as gym

    import imitate.envs
    from imitate.envs.versions import newest

    gym.register_envs(imitate.envs)
    if last.startswith("A"):
        import ale_py

        gym.register_envs(ale_py)
    return newest(gym.registry.values())
