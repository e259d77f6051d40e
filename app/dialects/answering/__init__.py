"""What the client formats share: ids, ends, proofs, parts of requests."""
