"""The user's home directory and name, which libraries ask for: known from the environment, from the system, or not at all."""

import getpass
import os
from pathlib import Path
from typing import Final

NOWHERE: Final = "/nonexistent"
"""The home of who has none (Debian Policy, "The home directories of system users"); nothing is read or written there."""


def ensure_home_variables() -> None:
    """Give HOME and LOGNAME values where neither the environment nor the system's list of users has one.

    So it is for a container that runs as a number. asyncssh asks for both even if it needs neither, and would raise.
    """
    if not os.environ.get("HOME"):
        # an empty one would make `~/.ssh` a directory below `/`
        os.environ.pop("HOME", None)
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = NOWHERE
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = str(os.getuid())


def is_home_known() -> bool:
    """Return True if `~` leads somewhere."""
    return os.environ.get("HOME") != NOWHERE


def explain_unknown_home() -> str:
    """Return why `~` leads nowhere."""
    return f"the home directory is not known: HOME is not set, and the system knows no user {os.getuid()}"
