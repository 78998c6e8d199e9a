"""What those who run the operator look at: health, metrics, logs."""
