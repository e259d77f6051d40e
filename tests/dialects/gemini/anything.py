"""Chunks of Gemini as nobody should send them."""

import json

from hypothesis import strategies as st

from app.framing.json_array import ELEMENT, END
from app.framing.sse import Message
from tests.dialects.strategies import ids, junk, many, names, some, sse, strings

numbers = st.integers(-1, 5)
partials = some(
    jsonPath=st.sampled_from(("$.a", "$.b", "$.c.d", "$.c.e", "$.f[0]", "$.f[1].g")),
    stringValue=strings,
    numberValue=st.integers(),
    willContinue=st.booleans(),
)
calls = some(
    id=ids,
    name=names,
    args=st.dictionaries(strings, junk, max_size=2),
    partialArgs=many(partials),
    willContinue=st.booleans(),
)
tools = some(id=ids, toolType=strings, args=junk, response=junk, code=strings, output=strings)
medias = some(mimeType=st.sampled_from(("audio/x", "image/x")), data=strings, fileUri=strings)
parts = some(
    text=strings,
    thought=st.just(True),
    thoughtSignature=strings,
    functionCall=calls,
    inlineData=medias,
    fileData=medias,
) | some(executableCode=tools, codeExecutionResult=tools, toolCall=tools, toolResponse=tools)
segments = some(startIndex=numbers, endIndex=numbers, text=strings, partIndex=numbers)
pages = some(uri=strings, title=strings, text=strings, documentName=strings)
candidates = some(
    index=numbers,
    content=some(parts=many(parts)),
    finishReason=st.sampled_from(("STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_RESPONSE", "x")),
    finishMessage=strings,
    safetyRatings=many(some(category=strings, blocked=st.booleans())),
    groundingMetadata=some(
        groundingChunks=many(some(web=pages, retrievedContext=pages, image=pages)),
        groundingSupports=many(some(segment=segments, groundingChunkIndices=many(numbers))),
    ),
    citationMetadata=some(citations=many(segments), citationSources=many(pages)),
    urlContextMetadata=some(urlMetadata=many(some(retrievedUrl=strings))),
    logprobsResult=some(
        chosenCandidates=many(some(token=strings, logProbability=st.floats())),
        topCandidates=many(some(candidates=many(some(token=strings)))),
    ),
)
chunks = some(
    candidates=many(candidates),
    usageMetadata=some(
        promptTokenCount=numbers,
        candidatesTokenCount=numbers,
        thoughtsTokenCount=numbers,
        toolUsePromptTokenCount=numbers,
        totalTokenCount=numbers,
    ),
    modelVersion=strings,
    responseId=strings,
)
ends = st.fixed_dictionaries({"error": junk}) | st.fixed_dictionaries(
    {"promptFeedback": some(blockReason=strings, blockReasonMessage=strings, safetyRatings=junk)}
)
messages = st.builds(
    Message,
    st.sampled_from((*("message", ELEMENT) * 4, END, "error", "ping")),
    (chunks | chunks | chunks | chunks | ends | junk).map(json.dumps) | strings,
)
unfinished = st.lists(some(index=numbers, content=some(parts=many(parts))), max_size=5).map(
    lambda sent: sse({"candidates": sent})
)
