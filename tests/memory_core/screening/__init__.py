"""Tests of the screening rules."""
