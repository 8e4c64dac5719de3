"""The version of the distribution, readable on a device without the distribution's metadata."""

VERSION = "0.1.0"
