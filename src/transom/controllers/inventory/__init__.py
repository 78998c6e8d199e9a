"""WindowsInstances from ConfigMap entries and machines."""
