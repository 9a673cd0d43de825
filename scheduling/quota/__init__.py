"""Quota of queues and cards: admission, charging, reclaiming, and the order of queues."""
