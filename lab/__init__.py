"""The Windows host of the tests and the demo: Wine machines behind SSH, an intercepting proxy, an image registry."""
