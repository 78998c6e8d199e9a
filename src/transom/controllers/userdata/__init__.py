"""The Secret `windows-user-data` of OpenShift."""
