"""What injected pods refer to, and whether pods are asked about at all."""
