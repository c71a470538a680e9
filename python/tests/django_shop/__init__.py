"""The shop as an application of Django."""
