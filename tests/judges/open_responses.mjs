// Runs the compliance suite of Open Responses: open_responses.mjs BASE_URL MODEL LEFT_OUT,...
// Bundled with `suite` as the suite's own module. Prints the results as JSON.
import { runAllTests, testTemplates } from "suite";

const [baseUrl, model, names] = process.argv.slice(2);
const leftOut = names.split(",");
const unknown = leftOut.filter((name) => !testTemplates.some(({ id }) => id === name));
if (unknown.length > 0) throw new Error(`no such tests: ${unknown}`);
const chosen = testTemplates.filter(({ id }) => !leftOut.includes(id));
const config = { baseUrl, model, apiKey: "x", authHeaderName: "Authorization", useBearerPrefix: true, runtime: "server" };
const results = await runAllTests(config, () => {}, chosen);
console.log(JSON.stringify(results.map(({ id, status, errors }) => ({ id, status, errors: errors ?? [] }))));
