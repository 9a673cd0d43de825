"""Questions about a log, answered as data: the use cases that the command line and web pages share."""
