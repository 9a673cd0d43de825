"""The device families of muster that belong to no feature, one module for each."""
