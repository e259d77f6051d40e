"""Limits, reservations, settlement and prices of streams. No I/O.

The event log stores the accounts, and updates them atomically with streams
(`app.eventlog.accounts`).
"""
