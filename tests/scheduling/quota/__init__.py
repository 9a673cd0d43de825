"""How quotas are judged."""
