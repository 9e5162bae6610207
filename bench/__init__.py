"""Measure the project against itself and its neighbours: `make bench` runs all of it."""
