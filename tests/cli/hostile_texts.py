"""Hostile texts: what several tests use."""

import re

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07"


LETTERS = r"\x1b[2J\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07"


WIDE = HOSTILE + "\x9b2J\x7f\u202e\u2066\u2028\ud800[red]:boom:"
"""What a registry value or a Status can hold; what cmd.exe writes into a file is ASCII."""


CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\u2028\u2029]")


OURS = re.compile(r"\x1b\[(\d+(;\d+)*)?m|\x1b\[\?25[lh]|\x1b\[\d?[AK]|\r")
"""Colours, the cursor hidden and shown, a line gone up and cleared: what rich writes to a terminal."""
