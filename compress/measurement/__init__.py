"""Measuring exported files in the engines that ship: quality, latency, memory, and the machine that did it."""
