"""Plans: the steps from an observed state to a desired state. Pure."""
