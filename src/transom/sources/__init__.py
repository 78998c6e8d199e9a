"""Where objects come from: a directory of manifests."""
