"""What is where in a cluster or a directory, and what looks wrong there: from objects to rows and findings. Pure."""
