"""Hooks that check the texts of requests and answers: functions of the operator, or HTTP calls."""
