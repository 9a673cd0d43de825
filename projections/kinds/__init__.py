"""The Kubernetes kinds that are observed, each in one module; `projections/kind_table.py` lists them."""
