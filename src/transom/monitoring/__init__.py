"""What Transom measures of itself, what it promises by that, and what a person is woken for. Pure data."""
