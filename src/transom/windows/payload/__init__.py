"""What a Windows worker is made of: the payload, its variables, the worker that it becomes."""
