"""`kubectl_complete-transom`: what kubectl completes behind `kubectl transom`.

kubectl runs a program of this name with the words so far, the last one incomplete or empty, and reads a line for each
completion, with a tab before its description, as fish does (k8s.io/kubectl v0.36.3, pkg/cmd/plugin/plugin_completion.go).
"""

import os
import shlex
import sys


def main() -> None:
    """Print the completions of the arguments; none: the shell completes files."""
    os.environ["_TRANSOM_COMPLETE"] = "complete_fish"
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    os.environ["_TYPER_COMPLETE_ARGS"] = shlex.join(["transom", *sys.argv[1:]])
    from transom.cli.app import app

    app(prog_name="transom")
