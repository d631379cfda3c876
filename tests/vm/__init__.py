"""Machines with a stock kernel, emulated: what hosts of tests/lab, which share this machine's kernel,
cannot show."""
