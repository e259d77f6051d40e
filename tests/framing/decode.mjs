// Decodes bodies with the browser client's decoder: a JSON list of [base64, sizes of the reads] on stdin.
// Prints for each the messages, and the one that was left unfinished.
import { SseDecoder } from "../../static/seseragi.js";

function decode([body, sizes]) {
  const bytes = Buffer.from(body, "base64");
  const decoder = new SseDecoder();
  const messages = [];
  let at = 0;
  for (const size of sizes) messages.push(...decoder.feed(bytes.subarray(at, (at += size))));
  return [messages, decoder.close()];
}

let input = "";
for await (const piece of process.stdin.setEncoding("utf8")) input += piece;
console.log(JSON.stringify(JSON.parse(input).map(decode)));
