"""Server-sent event streams and what WHATWG HTML 9.2.5 and 9.2.6 make of them.

Written by hand from the standard, one rule a case. `test_sse.py` feeds each under every
kind of cut. Bytes that are not ASCII are written as escapes, so the wire is what is read.
"""

from typing import NamedTuple

from app.framing.sse import Message

BOM = b"\xef\xbb\xbf"
LONGEST_DELAY = 2**31 - 1


class Case(NamedTuple):
    name: str
    wire: bytes
    messages: list[Message]
    rest: Message | None = None
    """What `close()` returns."""


def message(
    data: str, *, event: str = "message", id: str = "", retry: int | None = None
) -> Message:
    return Message(event, data, id, retry)


A, B = message("a"), message("b")

LINE_ENDS = [
    Case("empty-input", b"", []),
    Case("lf", b"data: a\n\n", [A]),
    Case("cr", b"data: a\r\r", [A]),
    Case("crlf", b"data: a\r\n\r\n", [A]),
    Case("lf-then-cr-are-two-ends", b"data: a\n\r", [A]),
    Case("cr-then-crlf-are-two-ends", b"data: a\r\r\n", [A]),
    Case("crlf-then-lf-are-two-ends", b"data: a\r\n\n", [A]),
    Case("crlf-is-one-end", b"data: a\r\ndata: b\r\n\r\n", [message("a\nb")]),
    Case("another-end-for-each-event", b"data: a\n\ndata: b\r\rdata: a\r\n\r\n", [A, B, A]),
    Case("cr-then-lf-after-blank-line", b"data: a\n\r\r\n\ndata: b\n\n", [A, B]),
    Case("blank-lines-of-lf", b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n", [A, B]),
    Case("blank-lines-of-crlf", b"\r\n\r\ndata: a\r\n\r\n\r\n\r\ndata: b\r\n\r\n\r\n", [A, B]),
    Case("nothing-but-line-ends", b"\n\r\r\n\n\r\n\r\r\r\n\n", []),
    Case("cr-inside-a-name-ends-the-line", b"da\rta: a\n\ndata: b\n\n", [B]),
    Case("cr-after-the-colon-ends-the-line", b"data:\ra\n\n", [message("")]),
    Case("lf-inside-a-value-ends-the-line", b"data: a\nb\n\n", [A]),
    Case("escaped-line-ends-are-text", rb"data: a\r\n\n" + b"\n\n", [message(r"a\r\n\n")]),
    Case("a-space-does-not-make-a-blank-line", b"data: a\n \ndata: b\n\n", [message("a\nb")]),
]

NOT_LINE_ENDS = [
    Case(f"{name}-ends-no-line", b"data: a" + wire + b"data: b\n\n", [message(f"a{text}data: b")])
    for name, wire, text in [
        ("line-separator", b"\xe2\x80\xa8", "\u2028"),
        ("paragraph-separator", b"\xe2\x80\xa9", "\u2029"),
        ("next-line", b"\xc2\x85", "\x85"),
        ("byte-85", b"\x85", "\ufffd"),
        ("vertical-tab", b"\x0b", "\x0b"),
        ("form-feed", b"\x0c", "\x0c"),
        ("file-separator", b"\x1c", "\x1c"),
        ("group-separator", b"\x1d", "\x1d"),
        ("record-separator", b"\x1e", "\x1e"),
        ("unit-separator", b"\x1f", "\x1f"),
        ("nul", b"\0", "\0"),
        ("two-line-separators", b"\xe2\x80\xa8\xe2\x80\xa8", "\u2028\u2028"),
    ]
] + [
    Case(
        "other-separators-in-event-and-id",
        b"event: e\xe2\x80\xa8f\x0b\nid: 1\xc2\x85\x1c2\ndata: a\n\n",
        [message("a", event="e\u2028f\x0b", id="1\x85\x1c2")],
    ),
    Case("other-separators-in-a-comment", b": c\xe2\x80\xa9data: b\x0cdata: b\ndata: a\n\n", [A]),
    Case("other-separators-make-no-blank-line", b"data: a\n\xe2\x80\xa8\n\x0c\n\x85\n", [], A),
]

BYTE_ORDER_MARK = [
    Case("bom-dropped", BOM + b"data: a\n\n", [A]),
    Case("bom-only-one-dropped", BOM + BOM + b"data: a\n\ndata: b\n\n", [B]),
    Case("bom-alone", BOM, []),
    Case("bom-then-lf", BOM + b"\ndata: a\n\n", [A]),
    Case("bom-then-unfinished", BOM + b"data: a", [], A),
    Case("bom-after-lf-kept", b"\n" + BOM + b"data: a\n\ndata: b\n\n", [B]),
    Case("bom-after-space-kept", b" " + BOM + b"\ndata: a\n\n", [A]),
    Case("bom-in-the-second-event-kept", b"data: a\n\n" + BOM + b"data: a\n\ndata: b\n\n", [A, B]),
    Case("bom-in-data-kept", b"data: " + BOM + b"a\n\n", [message("\ufeffa")]),
    Case("bom-makes-no-blank-line", b"data: a\n" + BOM + b"\ndata: b\n\n", [message("a\nb")]),
    Case("bom-first-byte-only", b"\xefdata: a\n\ndata: b\n\n", [B]),
    Case("bom-first-two-bytes-only", b"\xef\xbbdata: a\n\ndata: b\n\n", [B]),
    Case("bom-first-byte-alone", b"\xef", []),
    Case("bom-first-two-bytes-alone", b"\xef\xbb", []),
    Case("bom-last-byte-wrong", b"\xef\xbb\xbedata: a\n\ndata: b\n\n", [B]),
    Case("bom-of-utf-16-kept", b"\xff\xfedata: a\n\ndata: b\n\n", [B]),
]

COMMENTS = [
    Case("comment", b": c\ndata: a\n\n", [A]),
    Case("comment-without-space", b":c\ndata: a\n\n", [A]),
    Case("comment-of-a-colon", b":\ndata: a\n\n", [A]),
    Case("comment-that-looks-like-data", b":data: b\n: data: b\ndata: a\n\n", [A]),
    Case("comment-between-data", b"data: a\n: c\ndata: b\n\n", [message("a\nb")]),
    Case("comment-keeps-the-event-type", b"event: e\n:\ndata: a\n\n", [message("a", event="e")]),
    Case("comments-dispatch-nothing", b": c\n\n: c\n\n:\n\n", []),
    Case("comment-is-no-blank-line", b"data: a\n:\n", [], A),
    Case("comment-with-bad-utf-8", b": \xff\xe2\x82\ndata: a\n\n", [A]),
]

FIELDS = [
    Case("no-space", b"data:a\n\n", [A]),
    Case("one-space-dropped", b"data: a\n\n", [A]),
    Case("second-space-kept", b"data:  a\n\n", [message(" a")]),
    Case("value-of-one-space", b"data: \n\n", [message("")]),
    Case("tab-kept", b"data:\ta\n\n", [message("\ta")]),
    Case("no-break-space-kept", b"data:\xc2\xa0a\n\n", [message("\xa0a")]),
    Case("trailing-space-kept", b"data: a \n\n", [message("a ")]),
    Case("colon-in-value", b"data: a:b\n\n", [message("a:b")]),
    Case("colon-and-space-in-value", b"data:: a\n\n", [message(": a")]),
    Case("data-without-colon", b"data\n\n", [message("")]),
    Case("event-without-colon", b"event: e\nevent\ndata: a\n\n", [A]),
    Case("id-without-colon", b"id: 1\ndata: a\n\nid\ndata: b\n\n", [message("a", id="1"), B]),
    Case("retry-without-colon", b"retry: 5\nretry\ndata: a\n\n", [message("a", retry=5)]),
    Case("unknown-without-colon", b"a\ndata: a\n\n", [A]),
    Case("upper-case-data", b"DATA: b\ndata: a\n\n", [A]),
    Case("upper-case-event", b"Event: e\nEVENT: e\ndata: a\n\n", [A]),
    Case("upper-case-id", b"ID: 1\nId: 1\niD: 1\ndata: a\n\n", [A]),
    Case("upper-case-retry", b"Retry: 5\nRETRY: 5\ndata: a\n\n", [A]),
    Case("space-before-name", b" data: b\ndata: a\n event: e\n id: 1\n retry: 5\n\n", [A]),
    Case("space-after-name", b"data : b\ndata: a\nevent : e\nid : 1\nretry : 5\n\n", [A]),
    Case("unknown-field", b"error: b\ndata: a\nfoo:\n\n", [A]),
    Case("unknown-fields-dispatch-nothing", b"foo: b\n\nbar\n\n", []),
    Case("name-cut-short", b"dat: b\neven: e\ni: 1\nretr: 5\ndata: a\n\n", [A]),
    Case("name-too-long", b"data1: b\nevents: e\nids: 1\nretry-after: 5\ndata: a\n\n", [A]),
    Case("name-with-nul", b"data\0: b\nda\0ta: b\n\0data: b\ndata: a\n\n", [A]),
    Case("name-with-bad-utf-8", b"data\xff: b\n\xe2\x82data: b\nda\x80ta: b\ndata: a\n\n", [A]),
    Case("full-width-colon", b"data\xef\xbc\x9a b\ndata: a\n\n", [A]),
    Case(
        "no-space-in-any-field",
        b"event:e\nid:1\nretry:5\ndata:a\n\n",
        [message("a", event="e", id="1", retry=5)],
    ),
    Case(
        "fields-in-any-order",
        b"data: a\nretry: 5\nid: 1\ndata: b\nevent: e\n\n",
        [message("a\nb", event="e", id="1", retry=5)],
    ),
]

DATA = [
    Case("two-lines-joined", b"data: a\ndata: b\n\n", [message("a\nb")]),
    Case("first-line-empty", b"data\ndata: a\n\n", [message("\na")]),
    Case("last-line-empty", b"data: a\ndata:\n\n", [message("a\n")]),
    Case("empty-lines-only", b"data\ndata:\ndata: \n\n", [message("\n\n")]),
    Case("empty-data-dispatched", b"data:\n\n", [message("")]),
    Case("data-forgotten-after-dispatch", b"data: a\n\n\ndata: b\n\n", [A, B]),
    Case("no-data-no-dispatch", b"event: e\nid: 1\nretry: 5\n\n", []),
    Case("done-marker", b"data: [DONE]\n\n", [message("[DONE]")]),
    Case("nul-kept", b"data: \0a\0\0b\0\n\n", [message("\0a\0\0b\0")]),
    Case("three-byte-characters", b"data: \xe3\x81\x9b\xe3\x81\x9b\n\n", [message("せせ")]),
    Case("four-byte-character", b"data: \xf0\x9f\x8c\x8a\r\n\r\n", [message("🌊")]),
    Case("last-code-point", b"data: \xf4\x8f\xbf\xbf\n\n", [message("\U0010ffff")]),
    Case("first-above-the-surrogates", b"data: \xee\x80\x80\n\n", [message("\ue000")]),
    Case("replacement-character-kept", b"data: \xef\xbf\xbd\n\n", [message("\ufffd")]),
    Case("long-line", b"data: " + b"a" * 500 + b"\n\n", [message("a" * 500)]),
    Case("many-lines", b"data:a\n" * 80 + b"\n", [message("\n".join("a" * 80))]),
    Case("many-events", b"data:a\n\n" * 60, [A] * 60),
]

EVENT = [
    Case("event-named", b"event: e\ndata: a\n\n", [message("a", event="e")]),
    Case("event-named-message", b"event: message\ndata: a\n\n", [A]),
    Case("event-last-wins", b"event: e\nevent: f\ndata: a\n\n", [message("a", event="f")]),
    Case("event-empty-is-message", b"event:\ndata: a\n\n", [A]),
    Case("event-empty-undoes-a-name", b"event: e\nevent:\ndata: a\n\n", [A]),
    Case(
        "event-reset-by-dispatch", b"event: e\ndata: a\n\ndata: b\n\n", [message("a", event="e"), B]
    ),
    Case("event-reset-without-data", b"event: e\n\ndata: a\n\n", [A]),
    Case("event-second-space-kept", b"event:  e \ndata: a\n\n", [message("a", event=" e ")]),
    Case("event-not-ascii", b"event: \xe6\xb3\xa2\ndata: a\n\n", [message("a", event="波")]),
    Case("event-bad-utf-8", b"event: e\xe6\xb3\ndata: a\n\n", [message("a", event="e\ufffd")]),
]

ID = [
    Case("id-set", b"id: 1\ndata: a\n\n", [message("a", id="1")]),
    Case("id-last-wins", b"id: 1\nid: 2\ndata: a\n\n", [message("a", id="2")]),
    Case(
        "id-stays", b"id: 1\ndata: a\n\ndata: b\n\n", [message("a", id="1"), message("b", id="1")]
    ),
    Case(
        "id-changes",
        b"data: a\n\nid: 1\ndata: a\n\nid: 2\ndata: b\n\n",
        [A, message("a", id="1"), message("b", id="2")],
    ),
    Case("id-empty-resets", b"id: 1\ndata: a\n\nid:\ndata: b\n\n", [message("a", id="1"), B]),
    Case("id-reset-without-data", b"id: 1\n\nid\n\ndata: a\n\n", [A]),
    Case("id-with-nul-ignored", b"id: 1\0\ndata: a\n\n", [A]),
    Case(
        "id-with-nul-keeps-the-old",
        b"id: 1\ndata: a\n\nid: 2\x003\ndata: b\n\n",
        [message("a", id="1"), message("b", id="1")],
    ),
    Case(
        "id-with-overlong-nul-set",
        b"id: 1\xc0\x80\ndata: a\n\n",
        [message("a", id="1\ufffd\ufffd")],
    ),
    Case("id-is-text", b"id: 007 \ndata: a\n\n", [message("a", id="007 ")]),
    Case("id-bad-utf-8", b"id: 1\xff\ndata: a\n\n", [message("a", id="1\ufffd")]),
]

RETRY = [
    Case("retry-set", b"retry: 1500\ndata: a\n\n", [message("a", retry=1500)]),
    Case("retry-zero", b"retry: 0\ndata: a\n\n", [message("a", retry=0)]),
    Case("retry-leading-zeros", b"retry: 0090\ndata: a\n\n", [message("a", retry=90)]),
    Case(
        "retry-over-longest", b"retry: 2147483648\ndata: a\n\n", [message("a", retry=LONGEST_DELAY)]
    ),
    Case(
        "retry-5000-digits",
        b"retry:" + b"9" * 5000 + b"\ndata: a\n\n",
        [message("a", retry=LONGEST_DELAY)],
    ),
    Case(
        "retry-stays",
        b"retry: 5\ndata: a\n\ndata: b\n\n",
        [message("a", retry=5), message("b", retry=5)],
    ),
    Case(
        "retry-changes",
        b"data: a\n\nretry: 5\ndata: a\n\nretry: 6\ndata: b\n\n",
        [A, message("a", retry=5), message("b", retry=6)],
    ),
    Case("retry-without-data-holds", b"retry: 5\n\ndata: a\n\n", [message("a", retry=5)]),
    *[
        Case(
            f"retry-{name}-ignored",
            b"retry: 5\nretry:" + value + b"\ndata: a\n\n",
            [message("a", retry=5)],
        )
        for name, value in [
            ("empty", b""),
            ("of-a-space", b" "),
            ("plus", b" +9"),
            ("minus", b" -9"),
            ("second-space", b"  9"),
            ("tab", b"\t9"),
            ("trailing-space", b" 9 "),
            ("inner-space", b" 9 9"),
            ("fraction", b" 9.0"),
            ("exponent", b" 9e1"),
            ("hexadecimal", b" 0x9"),
            ("underscore", b" 9_0"),
            ("comma", b" 9,0"),
            ("unit", b" 9ms"),
            ("letters", b" nine"),
            ("nul", b" 9\0"),
            ("bad-utf-8", b" 9\xff"),
            ("full-width-digits", b" \xef\xbc\x99"),
            ("arabic-indic-digits", b" \xd9\xa9"),
            ("superscript-digit", b" 9\xc2\xb2"),
        ]
    ],
    Case("retry-bad-only", b"retry: x\ndata: a\n\n", [A]),
]

# The decoder of the Encoding standard writes one U+FFFD for each longest start of a
# sequence that could still become valid, and one for each byte that starts none.
UTF_8 = [
    case
    for name, wire, replacements in [
        ("lone-continuation", b"\x80", 1),
        ("last-lone-continuation", b"\xbf", 1),
        ("three-lone-continuations", b"\x80\xa0\xbf", 3),
        ("cut-in-2", b"\xc3", 1),
        ("cut-in-3-after-1", b"\xe3", 1),
        ("cut-in-3-after-2", b"\xe3\x81", 1),
        ("cut-in-4-after-1", b"\xf0", 1),
        ("cut-in-4-after-2", b"\xf0\x9f", 1),
        ("cut-in-4-after-3", b"\xf0\x9f\x8c", 1),
        ("cut-twice", b"\xe3\x81\xf0\x9f\x8c", 2),
        ("two-leads-of-2", b"\xc3\xc3", 2),
        ("lead-c0", b"\xc0", 1),
        ("lead-c1", b"\xc1", 1),
        ("overlong-2", b"\xc0\xaf", 2),
        ("overlong-2-last", b"\xc1\xbf", 2),
        ("overlong-3", b"\xe0\x80\xaf", 3),
        ("overlong-3-last", b"\xe0\x9f\xbf", 3),
        ("overlong-4", b"\xf0\x80\x80\xaf", 4),
        ("overlong-4-last", b"\xf0\x8f\xbf\xbf", 4),
        ("overlong-line-feed", b"\xc0\x8a", 2),
        ("surrogate-first", b"\xed\xa0\x80", 3),
        ("surrogate-last", b"\xed\xbf\xbf", 3),
        ("surrogate-pair", b"\xed\xa0\xbc\xed\xbc\x8a", 6),
        ("surrogate-cut", b"\xed\xa0", 2),
        ("above-last-code-point", b"\xf4\x90\x80\x80", 4),
        ("lead-f5", b"\xf5\x80\x80\x80", 4),
        ("lead-f7", b"\xf7\xbf\xbf\xbf", 4),
        ("five-bytes", b"\xf8\x88\x80\x80\x80", 5),
        ("six-bytes", b"\xfc\x84\x80\x80\x80\x80", 6),
        ("byte-fe", b"\xfe", 1),
        ("byte-ff", b"\xff", 1),
        ("bytes-ff", b"\xff\xff\xff", 3),
        ("cut-in-2-then-ff", b"\xc3\xff", 2),
        ("cut-then-bad-continuation", b"\xe1\x80\xc0", 2),
    ]
    for text in ["\ufffd" * replacements]
    for case in [
        Case(f"utf-8-{name}-inside", b"data: a" + wire + b"b\n\n", [message(f"a{text}b")]),
        Case(f"utf-8-{name}-at-line-end", b"data:" + wire + b"\r\n\r\n", [message(text)]),
        Case(f"utf-8-{name}-at-end", b"data: a" + wire, [], message("a" + text)),
    ]
] + [
    Case("utf-8-good-after-cut", b"data: \xe3\x81\xe3\x81\x9b\n\n", [message("\ufffdせ")]),
    Case("utf-8-good-after-continuation", b"data: \x9b\xe3\x81\x9b\n\n", [message("\ufffdせ")]),
    Case("utf-8-extra-continuation", b"data: \xe3\x81\x9b\x9b\n\n", [message("せ\ufffd")]),
    Case("utf-8-cut-by-a-line-end", b"data: \xe3\x81\ndata: \x9b\n\n", [message("\ufffd\n\ufffd")]),
    Case("utf-8-cut-by-a-blank-line", b"data: \xe3\n\ndata: a\n\n", [message("\ufffd"), A]),
]

UNFINISHED = [
    Case("end-inside-a-line", b"data: a", [], A),
    Case("end-after-lf", b"data: a\n", [], A),
    Case("end-between-cr-and-lf-of-the-blank-line", b"data: a\r\n\r", [A]),
    Case("end-inside-a-character", b"data: a\xe3\x81", [], message("a\ufffd")),
    Case("end-inside-a-second-event", b"data: a\n\ndata: b", [A], B),
    Case("end-after-a-complete-event", b"data: a\n\n\n", [A]),
    Case("end-inside-the-name-data", b"data: a\n\ndat", [A]),
    Case("end-after-the-name-data", b"data: a\n\ndata", [A], message("")),
    Case("end-after-the-colon", b"data:", [], message("")),
    Case("end-after-the-space", b"data: ", [], message("")),
    Case("end-after-empty-data", b"data\n", [], message("")),
    Case("end-inside-a-comment", b"data: a\n: c", [], A),
    Case("end-after-a-comment-alone", b": c\n", []),
    Case("end-with-event-only", b"event: e\n", []),
    Case("end-with-id-only", b"id: 1\n", []),
    Case("end-with-retry-only", b"retry: 5\n", []),
    Case(
        "end-with-all-fields",
        b"event: e\nid: 1\nretry: 5\ndata: a",
        [],
        message("a", event="e", id="1", retry=5),
    ),
    Case("end-with-the-id-before", b"id: 1\n\ndata: a\n", [], message("a", id="1")),
    Case("end-after-done", b"data: a\n\ndata: [DONE]", [A], message("[DONE]")),
]


GROUPS = {
    "line ends": LINE_ENDS,
    "not line ends": NOT_LINE_ENDS,
    "byte order mark": BYTE_ORDER_MARK,
    "comments": COMMENTS,
    "fields": FIELDS,
    "data": DATA,
    "event": EVENT,
    "id": ID,
    "retry": RETRY,
    "UTF-8": UTF_8,
    "unfinished": UNFINISHED,
}
CASES = [case for group in GROUPS.values() for case in group]
