"""The Secrets and ConfigMaps that injected pods refer to."""
