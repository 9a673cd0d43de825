"""The kinds of decisions, each in one module; `events/union.py` lists them."""
