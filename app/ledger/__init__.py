"""What streams may cost, and what they have cost: limits, reservations, settlement, prices. No I/O.

The numbers are kept where the log is, and change in the same steps (`app.eventlog.accounts`).
"""
