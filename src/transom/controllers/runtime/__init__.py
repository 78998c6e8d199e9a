"""What every controller is built on: stores, settings, queues' workers, conditions, leadership."""
