// Serves the providers of @copilotkit/aimock until its input ends: aimock.mjs FIXTURES_JSON
// Prints its address.
import { LLMock } from "@copilotkit/aimock";

const mock = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent" });
mock.addFixturesFromJSON(process.argv[2]);
await mock.start();
console.log(mock.url);
process.stdin.on("close", () => mock.stop()).resume();
