// Calls a sidecar with the official Anthropic SDK, once for each thing that
// may happen: the prompt tells the provider behind it what to do. Prints what
// came as one JSON object.
import Anthropic from "@anthropic-ai/sdk";

const [baseURL] = process.argv.slice(2);
const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey: "client-key" });
const got = {};

// A prompt that makes trouble has a route of its own, so that it troubles no
// other.
const trouble = ["rate", "quota", "auth", "invalid", "overloaded", "hidden", "reset", "late error", "breaks", "silent"];
const route = (prompt, stream) => (trouble.includes(prompt) ? `route-${prompt.replace(" ", "-")}${stream ? "-streamed" : ""}` : "route");
const ask = (prompt, more) => ({ model: route(prompt, more?.stream), messages: [{ role: "user", content: prompt }], max_tokens: 50, ...more });
const tools = [{ name: "weather", input_schema: { type: "object", properties: { city: { type: "string" } } } }];

async function attempt(name, f) {
  try {
    got[name] = { ok: await f() };
  } catch (e) {
    const kind = Object.keys(Anthropic).find((k) => Anthropic[k] === e.constructor) ?? e.constructor.name;
    got[name] = {
      error: kind,
      is_api_error: e instanceof Anthropic.APIError,
      status: e.status,
      code: e.error?.error?.code,
      type: e.error?.error?.type,
      message: e.message,
      request_id: e.requestID,
      retry_after: e.headers?.get("retry-after"),
      class: e.error?.error?.weir?.class,
    };
  }
}

async function collect(stream) {
  let text = "";
  for await (const event of stream) text += event.delta?.text ?? event.delta?.partial_json ?? "";
  return text;
}

await attempt("plain", async () => (await client.messages.create(ask("plain"))).content[0].text);
await attempt("stream", async () => collect(await client.messages.create(ask("stream", { stream: true }))));
await attempt("helper", async () => (await client.messages.stream(ask("stream")).finalMessage()).usage.output_tokens);
await attempt("tools", async () => (await client.messages.create(ask("tools", { tools }))).content[0].input.city);
await attempt("tools streamed", async () => collect(await client.messages.create(ask("tools", { tools, stream: true }))));
await attempt("count", async () => (await client.messages.countTokens({ model: "route", messages: ask("count").messages })).input_tokens);

await attempt("models", async () => (await client.models.list()).data.some((m) => m.id === "route"));

for (const name of ["rate", "quota", "auth", "invalid", "overloaded", "reset"]) {
  await attempt(name, () => client.messages.create(ask(name)));
  await attempt(name + " streamed", async () => collect(await client.messages.create(ask(name, { stream: true }))));
}
await attempt("missing", () => client.messages.create(ask("plain", { model: "no-such-route" })));
await attempt("late error", async () => collect(await client.messages.create(ask("late error", { stream: true }))));
await attempt("breaks", async () => collect(await client.messages.create(ask("breaks", { stream: true }))));
await attempt("abort", async () => {
  const stream = await client.messages.create(ask("hangs", { stream: true }));
  for await (const event of stream) {
    void event;
    stream.controller.abort();
  }
  return "aborted";
});
await attempt("timeout", () => client.messages.create(ask("silent"), { timeout: 300, maxRetries: 0 }));

console.log(JSON.stringify(got));
