"""How fast it is: the figures that the manual names, measured."""
