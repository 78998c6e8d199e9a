"""A Windows host as a value: what is on it, what is asked of it, and the steps that change it."""
