"""What stands at a position of the log: the records with which an archive, a part of a log or an imported log begins."""
