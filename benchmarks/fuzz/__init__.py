"""What others say, read by Transom: coverage-guided fuzzing, and time by length."""
