"""Where objects come from: a directory of manifests, or an API server; both give the same `Objects`."""
