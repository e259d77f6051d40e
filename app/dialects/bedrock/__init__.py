"""Amazon Bedrock: Converse, and Claude's own events in Bedrock's frames."""
