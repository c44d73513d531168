"""Tests of memory_core."""
