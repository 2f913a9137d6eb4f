"""Test servers on loopback, a client that behaves like the ones h3probe diagnoses, and scenarios for both.

Everything here runs without privileges and without anything installed beforehand.
"""
