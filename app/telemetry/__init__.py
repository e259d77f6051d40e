"""What operators see of the relay. Never a prompt, an answer or a key."""
