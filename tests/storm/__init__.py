"""The daemon under fire: killed, cut off from its log, shut out, stopped; and judged afterwards."""
