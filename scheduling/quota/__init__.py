"""May it enter, may it be charged: queues and cards."""
