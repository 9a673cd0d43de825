"""The deterministic core: watch events become records, State, decisions, requests and outcomes."""
