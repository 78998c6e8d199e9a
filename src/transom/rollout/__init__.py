"""One change on its way to many hosts: the state of a rollout, its queue, its fingerprints and progress markers. Pure."""
