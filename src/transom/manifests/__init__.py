"""What has to be in a cluster for Transom to run there: definitions of its kinds, roles, deployments. Pure."""
