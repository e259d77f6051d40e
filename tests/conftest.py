"""What holds for all tests."""

from hypothesis import settings

# How long one example takes says more about the machine than about the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
