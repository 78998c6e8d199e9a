"""What is done in a pass: gather, change, deliver, probe."""
