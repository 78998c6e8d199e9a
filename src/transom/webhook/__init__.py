"""The admission server: pods get what is theirs while they are created. An entry point of its own, on every replica."""
