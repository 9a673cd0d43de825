"""Ascend NPUs: products, how their chips are grouped and which of them a pod gets; virtual NPUs."""
