"""What a provider's refusal names, by the wordings of providers: fields, values and betas.

Each row has its source: a public report with an error as it was received, unless noted.
"""

import re
from typing import Final, Literal, NamedTuple

from ...errors import RelayError

Kind = Literal["field", "value", "beta"]

# Possessive, and only from the begin of a name: linear in texts of one long name.
_NAME: Final = r"(?<![\w$.-])[\w$-]++(?:[.\[/][\w$\]-]++)*+"
_ITEM: Final = rf"\\{{0,3}}+[`'\"]?{_NAME}\\{{0,3}}+[`'\"]?"
_LIST: Final = rf"(?P<names>{_ITEM}(?:, ?{_ITEM})*+)"

_ROWS: Final[tuple[tuple[Kind, str], ...]] = (
    # OpenAI and Azure: BeehiveInnovations/pal-mcp-server#78, cline/cline#341
    ("field", rf"Unsupported value: {_LIST} does not support .{{0,80}}Only the default"),
    ("value", rf"Unsupported value: {_LIST} does not support"),
    # OpenAI: anomalyco/opencode#37964; GitHub Copilot: caozhiyuan/copilot-api#164;
    # Azure: jamesrochabrun/SwiftOpenAI#67; llama.cpp: its server's source
    ("field", rf"(?:Unsupported|Unknown) param(?:eter)?: {_LIST}"),
    # Azure: Azure/azure-sdk-for-java#40198; others: quarkiverse/quarkus-langchain4j#285;
    # Zod, as in gateways of JavaScript: its own messages, versions 3 and 4
    ("field", rf"Unrecognized (?:request argument|key)s?(?: supplied|\(s\) in object)?: {_LIST}"),
    # Anthropic and Vertex AI: QuantumNous/new-api#2975, aaronrussell/anthropix#15;
    # a gateway: anthropics/claude-code#70563
    ("beta", rf"Unexpected (?:value\(s\)|beta header) {_LIST}"),
    # Bedrock, which names none: quarkiverse/quarkus-langchain4j#2132, BerriAI/litellm#41203
    ("beta", r"invalid beta flag"),
    # Gemini and Vertex AI: MinLL/SkyrimNet-GamePlugin#77, musistudio/claude-code-router#187;
    # serde and encoding/json, as in servers of Rust and Go: their own messages
    ("field", rf"unknown (?:name|field) (?P<names>{_ITEM})"),
    # vLLM and others with Pydantic: 1Panel-dev/MaxKB#2912, mistralai/client-ts#65;
    # Mistral as text in text: mistralai/platform-docs-public#7
    ("field", r"loc\W{1,8}[\[(](?P<loc>[^\])]{1,200})[\])].{0,20}Extra inputs are not permitted"),
    # Anthropic: anthropics/claude-code#4378, caozhiyuan/copilot-api#145; and FastAPI's lists
    ("field", rf"{_LIST}: extra (?:inputs|fields) (?:are )?not permitted"),
    # Bedrock: BerriAI/litellm#7416, zed-industries/zed#31815
    ("field", rf"extraneous key \[{_LIST}\] is not permitted"),
    # Bedrock: langgenius/dify-official-plugins#1767
    ("field", rf"model doesn't support the {_LIST} field"),
    # Groq: fanenr/chatbot#21, tashfeenahmed/freellmapi#1070
    ("field", rf"property {_LIST} is unsupported"),
    # xAI: n8n-io/n8n#14581, open-webui/open-webui#21266
    ("field", rf"Argument not supported(?: on this model)?: {_LIST}"),
    # xAI: open-webui/open-webui#21266; LiteLLM: BerriAI/litellm#10985
    ("field", rf"does not support parameter(?:s: [\[{{])? ?{_LIST}"),
    # Anthropic, Bedrock: RooCodeInc/Roo-Code#12162, cognizant-ai-lab/neuro-san-studio#1072
    ("field", rf"{_LIST} is deprecated for this model"),
    # Gemini's models: PublicAffairs/openai-gemini#63, vercel/ai#4022
    ("field", r"(?P<names>Penalty) is not enabled for"),
    # Gemini: RooCodeInc/Roo-Code#10700, immersive-translate/immersive-translate#2976;
    # Vertex AI: google-gemini/gemini-cli#14025
    ("field", r"(?P<names>Thinking level|thinking_level|thinking_config) is not supported"),
    # Vertex AI: CherryHQ/cherry-studio#6319, jenslys/opencode-gemini-auth#14
    ("field", r"please remove the (?P<names>thinking_config) setting"),
    ("value", r"because (?P<names>thinking_level) \w{1,20} is not supported"),
    # Ollama, also through its Chat Completions: Gitlawb/openclaude#1371
    ("field", r"does not support (?P<names>thinking)\b"),
    # OpenAI's strict schemas: 1jehuang/jcode#687
    ("field", rf"In context=\(.{{0,200}}?\), {_LIST} is not permitted"),
    # Claude's: "For 'integer' type, properties maximum, minimum are not supported"
    ("field", rf"For '\w+' type, propert(?:y|ies) {_LIST} (?:is|are) not supported"),
)
_IMPLIED: Final = {
    "penalty": ("presence_penalty", "frequency_penalty"),
    "thinking level": ("thinking_level",),
    "thinking": ("think", "reasoning_effort"),
}
"""The fields that an error means by another name."""


class Refusal(NamedTuple):
    """What a refusal names."""

    kind: Kind
    names: tuple[str, ...]
    """As in the error, which may be paths; of betas none if it names none."""
    quotes: tuple[str, ...]
    """The parts of the text with the names."""


def read_refusal(error: RelayError) -> Refusal | None:
    """Return what a provider's error names; None if no wording is known."""
    for kind, wording in _ROWS:
        if found := list(re.compile(wording, re.IGNORECASE).finditer(error.provider_message)):
            names = [name for match in found for name in _names(match)]
            return Refusal(kind, tuple(dict.fromkeys(names)), tuple(match[0] for match in found))
    return None


def _names(match: re.Match[str]) -> tuple[str, ...]:
    groups = match.groupdict()
    if loc := groups.get("loc"):
        return (".".join(re.findall(r"[\w$-]+", loc)),)
    text = groups.get("names") or ""
    return _IMPLIED.get(text.lower()) or tuple(re.findall(_NAME, text))
