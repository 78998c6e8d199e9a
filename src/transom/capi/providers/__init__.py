"""The infrastructure providers of Windows workers, one module per name of `ProviderName`."""
