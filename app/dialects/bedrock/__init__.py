"""Amazon Bedrock: Converse, and Claude's native events in Bedrock's frames."""
